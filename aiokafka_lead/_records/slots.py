"""Attributes of compiled types, as quick to read as those of plain Python's types with ``__slots__``.

Those have no need: a compiled module takes the function of the same name from ``slots.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["expose"]


def expose(sample: object, names: Sequence[str]) -> None:
    """Let the interpreter read these attributes of the sample's type without a call. In the sample each is unique."""
