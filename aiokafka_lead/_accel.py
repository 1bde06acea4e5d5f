"""Detects if the hot modules are compiled."""

from __future__ import annotations

import logging
import os
from functools import cache

from ._records import decoder, encoder

ACCELERATED = not any((module.__file__ or "").endswith(".py") for module in (decoder, encoder))
"""True when the record codec runs as compiled code, False when it runs as plain Python."""


@cache
def warn_if_plain() -> None:
    """Log once per process, to ``aiokafka_lead.build``, that the client runs as plain Python unless this is intended.

    ``AIOKAFKA_LEAD_PURE=1`` in the environment declares it as intended, and also disables compilation in a build.
    """
    if not ACCELERATED and os.environ.get("AIOKAFKA_LEAD_PURE") != "1":
        logging.getLogger("aiokafka_lead.build").warning(
            "aiokafka-lead runs as plain Python, which takes several times the CPU time of the compiled package. "
            "Install it with a Python that has a wheel, or with a C compiler. AIOKAFKA_LEAD_PURE=1 hides this warning"
        )
