"""Makes ``python -m aiokafka_lead`` the same as the command ``aiokafka-lead``."""

from __future__ import annotations

import sys

from .cli.entry import main

sys.exit(main())
