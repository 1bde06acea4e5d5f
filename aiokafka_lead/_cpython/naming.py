"""The module that a class shows in its ``repr``, in tracebacks and in the reference.

A compiled module uses the function of the same name in ``naming.pxd``.
"""

from __future__ import annotations


def show_in(module: str, kind: type) -> None:
    """Let the class show this module, from which users import it, and not the private module that defines it."""
    kind.__module__ = module
