"""Finds out by the reference count if an object has no other owner. Possible only in compiled modules.

A compiled module uses the function of the same name in ``references.pxd``.
"""

from __future__ import annotations

COUNTED = False
"""True if `has_no_other_owner` can return True.

If it is False, no object is kept to be used again, because another thread might take it.
"""


def has_no_other_owner(kept: object) -> bool:
    """Return True if ``kept`` has exactly two references: the caller's variable, and one attribute or item.

    Always False if the caller is not compiled, because the count is then unknown.
    """
    return False
