"""``python -m aiokafka_lead.cli`` is the same as ``aiokafka-lead``."""

import sys

from .entry import main

sys.exit(main())
