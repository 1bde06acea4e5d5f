"""Hides secret options from ``repr``, because error reporting tools record the local variables of stack frames."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._options.checks import Secret

_NAMES = re.compile(r"pass|secret|token(?!.*url$)|jaas|keystore\.key|keydata|access.?key|proxy\.url", re.IGNORECASE)
_URL_WITH_LOGIN = re.compile(r"://[^/\s]*@")


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, with values that are probably secret as `Secret`, a subclass of ``str``."""
    return {
        name: Secret(text) if _NAMES.search(name) or _URL_WITH_LOGIN.search(text) else text
        for name, text in options.items()
    }
