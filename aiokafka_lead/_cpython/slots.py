"""Makes attributes of a compiled type as fast to read as ``__slots__``, and its objects fast to create.

In plain Python, the first is not needed and the second is not possible. A compiled module uses the functions of the
same names in ``slots.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def expose(sample: object, names: Sequence[str]) -> None:
    """Let the interpreter read these attributes of the sample's type without a function call.

    The sample's values must be unique objects. ``names`` must contain all attributes that hold objects, and the type
    must be final.
    """


def like(sample: Any) -> Any:
    """Return another record with the same attributes. In compiled form, the garbage collector does not track it."""
    return sample.with_content(sample.key, sample.value)
