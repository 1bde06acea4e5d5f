"""``python -m aiokafka_lead`` is the same as ``aiokafka-lead``."""

from __future__ import annotations

import sys

from .cli.entry import main

sys.exit(main())
