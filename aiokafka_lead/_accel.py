"""Finds out if the hot modules are compiled."""

from __future__ import annotations

import logging
import os
from functools import cache

from ._records import decoder, encoder

ACCELERATED = not any((module.__file__ or "").endswith(".py") for module in (decoder, encoder))
"""True if the record codec runs as compiled code, False if it runs as plain Python."""


@cache
def warn_if_plain() -> None:
    """Log a warning if the client runs as plain Python, once per process, unless that is intended.

    The logger is ``aiokafka_lead.build``. ``AIOKAFKA_LEAD_PURE=1`` in the environment says that it is intended, and
    also disables compilation when the package is built.
    """
    if not ACCELERATED and os.environ.get("AIOKAFKA_LEAD_PURE") != "1":
        logging.getLogger("aiokafka_lead.build").warning(
            "aiokafka-lead runs as plain Python, which takes several times the CPU time of the compiled package. "
            "Install it with a Python that has a wheel, or with a C compiler. AIOKAFKA_LEAD_PURE=1 hides this warning"
        )
