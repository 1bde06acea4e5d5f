"""Sets the module that a class shows in its ``repr``, in tracebacks and in the reference documentation.

A compiled module uses the function of the same name in ``naming.pxd``.
"""

from __future__ import annotations


def show_in(module: str, kind: type) -> None:
    """Let the class show this public module, from which users import it, as its module.

    Without this, it would show the private module that defines it.
    """
    kind.__module__ = module
