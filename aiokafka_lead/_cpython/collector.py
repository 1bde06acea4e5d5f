"""Hides objects from the garbage collector. Possible only in compiled modules.

A compiled module uses the function of the same name in ``collector.pxd``.
"""

from __future__ import annotations


def untrack(kept: object) -> None:
    """Stop tracking an object that cannot be part of a cycle. In plain Python, this does nothing."""
