"""Whether an object has another owner: not known here, and by its reference count in compiled modules.

A compiled module takes the function of the same name from ``references.pxd`` instead.
"""

from __future__ import annotations

__all__ = ["has_no_other_owner"]


def has_no_other_owner(kept: object) -> bool:
    """Whether one attribute or item and the caller's variable are all that refer to it. (Plain Python cannot know.)"""
    return False
