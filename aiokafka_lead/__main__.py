"""Makes ``python -m aiokafka_lead`` the same as the command ``aiokafka-lead``."""

import sys

from .cli.entry import main

sys.exit(main())
