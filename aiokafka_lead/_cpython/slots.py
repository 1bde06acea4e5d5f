"""Makes attributes of a compiled type as quick to read as ``__slots__``, and its objects quick to create.

Plain Python's types do not need the first, and cannot have the second: a compiled module takes the functions of the
same names from ``slots.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def expose(sample: object, names: Sequence[str]) -> None:
    """Let the interpreter read these attributes of the sample's type without a call.

    Their values in the sample must be unique. They are all the attributes that hold objects. The type is final.
    """


def like(sample: Any) -> Any:
    """Return another record with the same attributes; when compiled, not tracked by the garbage collector."""
    return sample.with_content(sample.key, sample.value)
