"""Controls of subscriptions to clients' metrics, and the metrics that clients have pushed (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .._options.arguments import list_of, string
from .._options.checks import boolean, integer, one_of, text
from .._records.layout import CODEC_NAMES
from ..errors import ConfigError
from ._caller import Caller
from ._server.engine import Engine
from ._state.client_metrics import ACCEPTED, DEFINITIONS, TelemetryPush

_METRICS = list_of("metrics", string)
_MATCH = list_of("match", text)
_CODECS = list_of("compression_types", one_of(*CODEC_NAMES))


class TelemetryControls:
    """Controls of metric subscriptions in an `EmbeddedCluster` with ``client_telemetry``."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> TelemetryControls:
        """Return the same controls for another thread; ``call`` runs a function in the thread of the cluster."""
        return TelemetryControls(self._engine, call)

    def subscribe(
        self, name: str, metrics: Iterable[str] = ("*",), *, interval_ms: int = 300_000, match: Iterable[str] = ()
    ) -> None:
        """Subscribe to the metrics whose names begin with one of these prefixes (default: all metrics).

            cluster.telemetry.subscribe("all", interval_ms=1000, match=["client_id=orders-.*"])

        Clients push the metrics every ``interval_ms`` (default: 300000). ``match`` selects clients, with items such as
        ``"client_id=orders-.*"`` (default: all clients). An earlier subscription with the same ``name`` is replaced.
        This is like `AdminClient.incremental_alter_configs` for a resource of type CLIENT_METRICS. Raises
        `InvalidConfigError` or `InvalidRequestError` for an invalid argument.
        """
        text("name", name)
        options = {
            "metrics": ",".join(_METRICS("metrics", metrics)),
            "interval.ms": str(integer(0)("interval_ms", interval_ms)),
            "match": ",".join(_MATCH("match", match)),
        }
        self._change(name, {option: value for option, value in options.items() if value})

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription."""
        self._change(text("name", name), {})

    def _change(self, name: str, options: Mapping[str, str]) -> None:
        if not self._engine.apis.telemetry:
            raise ConfigError("the cluster does not accept metrics: create it with client_telemetry=True")
        assert options.keys() <= DEFINITIONS.keys()

        def change() -> None:
            self._engine.client_metrics.check(name, options)
            self._engine.client_metrics.replace(name, options)

        self._call(change)

    def accept(
        self,
        compression_types: Iterable[str] = ACCEPTED,
        *,
        max_bytes: int = 1_048_576,
        delta: bool = True,
    ) -> None:
        """Set the pushes that the brokers accept: the codecs, the maximum size in bytes, and the temporality.

        ``delta`` requests the change since the last push; otherwise clients push totals since their start. Only later
        subscriptions are affected.
        """
        codecs = _CODECS("compression_types", compression_types)
        integer(0)("max_bytes", max_bytes)
        boolean("delta", delta)

        def change() -> None:
            metrics = self._engine.client_metrics
            metrics.accepted, metrics.max_bytes, metrics.delta = list(codecs), max_bytes, delta

        self._call(change)

    @property
    def pushes(self) -> list[TelemetryPush]:
        """Pushes from clients, oldest first. The last 10000 are kept."""
        return self._call(lambda: list(self._engine.client_metrics.pushes))
