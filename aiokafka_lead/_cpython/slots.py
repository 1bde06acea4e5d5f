"""Attributes of a compiled type as quick to read as those of ``__slots__``, and its objects quick to make.

Plain Python's types have no need of the first, and no way to the second: a compiled module takes the functions of the
same names from ``slots.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["expose", "like"]


def expose(sample: object, names: Sequence[str]) -> None:
    """Let the interpreter read these attributes of the sample's type without a call. In the sample each is unique.

    They are all that hold objects. The type is final.
    """


def like(sample: Any) -> Any:
    """Another record with the same attributes. Compiled, of any such type, and unknown to the garbage collector."""
    return sample.with_content(sample.key, sample.value)
