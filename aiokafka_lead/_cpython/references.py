"""Recognises objects without another owner by the reference count, in compiled modules only.

A compiled module uses the function of the same name in ``references.pxd``.
"""

from __future__ import annotations

COUNTED = False
"""True if `has_no_other_owner` can return True. If not, no object is kept for reuse: another thread might take it."""


def has_no_other_owner(kept: object) -> bool:
    """Return True if only one attribute or item and the caller's variable refer to it. (Unknown in plain Python.)"""
    return False
