"""Objects that the garbage collector does not look at: there are none here, and some in compiled modules.

A compiled module takes the function of the same name from ``collector.pxd`` instead.
"""

from __future__ import annotations

__all__ = ["untrack"]


def untrack(kept: object) -> None:
    """Spare the garbage collector an object that holds nothing which could refer back to it. (Plain Python cannot.)"""
