"""Whether an object has another owner: not known here, and by its reference count in compiled modules.

A compiled module takes the function of the same name from ``references.pxd`` instead.
"""

from __future__ import annotations

__all__ = ["COUNTED", "has_no_other_owner"]

COUNTED = False
"""Whether `has_no_other_owner` can say yes. Where it cannot, nothing is kept for it: another thread might take that."""


def has_no_other_owner(kept: object) -> bool:
    """Whether one attribute or item and the caller's variable are all that refer to it. (Plain Python cannot know.)"""
    return False
