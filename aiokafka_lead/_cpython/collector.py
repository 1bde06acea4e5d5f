"""Objects that the garbage collector does not track: none here, some in compiled modules.

A compiled module takes the function of the same name from ``collector.pxd`` instead.
"""

from __future__ import annotations


def untrack(kept: object) -> None:
    """Stop tracking an object that cannot be part of a cycle. (Not possible in plain Python.)"""
