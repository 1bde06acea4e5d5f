"""Hides objects from the garbage collector, in compiled modules only.

A compiled module uses the function of the same name in ``collector.pxd``.
"""

from __future__ import annotations


def untrack(kept: object) -> None:
    """Stop tracking an object that cannot be part of a cycle. (Not possible in plain Python.)"""
