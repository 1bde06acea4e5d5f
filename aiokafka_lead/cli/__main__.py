"""``python -m aiokafka_lead.cli`` is the same as ``aiokafka-lead``."""

from __future__ import annotations

import sys

from .entry import main

sys.exit(main())
