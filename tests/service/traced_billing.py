"""The consumer service of ``examples``, traced; exported to OTLP_ENDPOINT."""

from __future__ import annotations

import asyncio
import os

from examples.consumer_service import main
from tests.otlp import export_to

provider = export_to(os.environ["OTLP_ENDPOINT"], "billing")
asyncio.run(main())
provider.shutdown()
