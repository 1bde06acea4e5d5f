"""Predictions of sampling without calling the sampler, which costs as much as a span."""

from __future__ import annotations

import re
from typing import Any

from opentelemetry.trace import Span, Tracer

__all__ = ["SamplingRules"]

_OFF = "AlwaysOffSampler"
_PARTS = re.compile(r"(root|remoteParentNotSampled|localParentNotSampled):(\w+)")


class SamplingRules:
    """Interprets the description of the tracer's sampler (OpenTelemetry fixes the words), again if it changes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Any = tracer
        self._sampler: Any = None
        self._drops_roots = False
        self._drops_local = False
        self._drops_remote = False

    def drops(self, parent: Span) -> bool:
        """Return True if no span below this one is recorded. Returns False also if that is unknown."""
        self._look()
        context = parent.get_span_context()
        if not context.is_valid:
            return self._drops_roots
        if context.trace_flags.sampled:
            return False
        return self._drops_remote if context.is_remote else self._drops_local

    def _look(self) -> None:
        # A tracer created before its provider was set delegates to another one.
        sampler = getattr(getattr(self._tracer, "_tracer", self._tracer), "sampler", None)
        if sampler is self._sampler:
            return
        self._sampler = sampler
        text = "" if sampler is None else sampler.get_description()
        off = (
            {part for part, kind in _PARTS.findall(text) if kind == _OFF} if text.startswith("ParentBased{") else set()
        )
        always = text == _OFF
        self._drops_roots = always or "root" in off
        self._drops_local = always or "localParentNotSampled" in off
        self._drops_remote = always or "remoteParentNotSampled" in off
