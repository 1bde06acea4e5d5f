"""Recognises objects without another owner by the reference count, in compiled modules only.

A compiled module uses the function of the same name in ``references.pxd``.
"""

from __future__ import annotations

COUNTED = False
"""True if `has_no_other_owner` can return True. If not, no object is kept for reuse: another thread might take it."""


def has_no_other_owner(kept: object) -> bool:
    """Return True if ``kept`` has exactly two references: the caller's variable, and one attribute or item.

    Always False if the caller is not compiled, because the count is then unknown.
    """
    return False
