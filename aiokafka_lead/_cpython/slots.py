"""Makes attributes of a compiled type as quick to read as ``__slots__``, and its objects quick to create.

Types of plain Python do not need the former, and cannot have the latter. A compiled module uses the functions of the
same names in ``slots.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def expose(sample: object, names: Sequence[str]) -> None:
    """Let the interpreter read these attributes of the sample's type without a call.

    Their values in the sample must be unique. ``names`` must have all attributes that hold objects, and the type must
    be final.
    """


def like(sample: Any) -> Any:
    """Return another record with the same attributes; when compiled, not tracked by the garbage collector."""
    return sample.with_content(sample.key, sample.value)
