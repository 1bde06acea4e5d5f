"""Conversion of ``kafka.*`` options, which Spark's connector passes to the Java client, to options of this client.

In this package, a *setting* is the name of such an option without the prefix ``kafka.``. Both Java's settings and the
options of this client, written with dots, are accepted. Settings that concern only a Java client are logged and
ignored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from .._options.checks import INT64_MAX
from .._options.oauth import FLAT_OPTIONS
from .._options.tls import TlsMaterial
from ..config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ..errors import ConfigError, ConfigTypeError
from ..security import PASSWORD_MECHANISMS, SASL_PREFIXES
from .config_providers import with_variables
from .logins import login_options

_log = logging.getLogger("aiokafka_lead.spark")

_OPTIONS = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.truststore.certificates": "ssl_cadata",
    "ssl.truststore.password": "ssl_ca_password",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.keystore.certificate.chain": "ssl_certdata",
    "ssl.keystore.key": "ssl_keydata",
    "ssl.key.password": "ssl_password",
}
_EXCLUSIVE = (
    ("ssl.truststore.location", "ssl.truststore.certificates"),
    ("ssl.keystore.location", "ssl.keystore.key"),
    ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
)
_PAIR = ("ssl.keystore.certificate.chain", "ssl.keystore.key")


def tls_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``ssl_*`` options for Java's settings of key stores and trust stores.

    Raises ValueError, which names the option, for an invalid or unsupported store.
    """
    for store in ("truststore", "keystore"):
        kind = settings.get(f"ssl.{store}.type", "PEM").strip().upper()
        # JKS is accepted, because Java also reads PKCS #12 stores with this type. The content is checked later.
        if kind not in ("PEM", "PKCS12", "JKS"):
            raise ValueError(f"option 'kafka.ssl.{store}.type' must be PEM or PKCS12, not {kind}; convert the store")
    for one, other in _EXCLUSIVE:
        if one in settings and other in settings:
            raise ValueError(f"options 'kafka.{one}' and 'kafka.{other}' cannot be combined")
    given = [name for name in _PAIR if name in settings]
    if len(given) == 1:
        (missing,) = set(_PAIR) - set(given)
        raise ValueError(f"option 'kafka.{missing}' is missing, although 'kafka.{given[0]}' is given")
    found: dict[str, Any] = {own: settings[name] for name, own in _OPTIONS.items() if settings.get(name)}
    called = {own: f"option 'kafka.{name}'" for name, own in _OPTIONS.items()}
    if "ssl.key.password" not in settings and "ssl.keystore.password" in settings:
        # In a PKCS #12 store, the password of the store also protects the key.
        found["ssl_password"] = settings["ssl.keystore.password"]
        called["ssl_password"] = "option 'kafka.ssl.keystore.password'"
    if "ssl_certfile" not in found and "ssl_certdata" not in found:
        found.pop("ssl_password", None)  # without a certificate, Java ignores the password
    if "ssl_cafile" not in found:
        found.pop("ssl_ca_password", None)
    if settings.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        found["ssl_check_hostname"] = False
    if found:
        TlsMaterial(**found, names=called).context()
    return found


C = TypeVar("C", bound=ClientConfig)

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"
_READ_APART = re.compile(
    r"bootstrap\.servers|config\.providers.*|sasl\.jaas\.config|sasl\.(login|client)\.callback\.handler\.class|compression\.\w+\.level|ssl\.key\.password"
    r"|ssl\.(trust|key)store\..*|ssl\.endpoint\.identification\.algorithm"
)
_MAYBE_EMPTY = {"client.id", "client.rack", "group.id", "group.remote.assignor"}
"""Settings that Java considers unset if the text is empty."""
_OF_MECHANISM = {
    name: prefix.replace("_", ".") for name, prefix in SASL_PREFIXES.items() if name not in PASSWORD_MECHANISMS
}
"""Prefixes of the settings of a single SASL mechanism. Java has no settings for passwords, so these are never idle."""
_NO_TEXT = ("tuple", "Serializer", "Deserializer", "Partitioner", "Context", "Provider", "Connect")
"""Parts of the type names of options that cannot be set from text."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_KNOWN_PREFIXES = (PREFIX, "kafkaconsumer.cache.")
_JAVA_SETTINGS = frozenset(
    """
    auto.include.jmx.reporter bootstrap.controllers buffer.memory.allocation.strategy client.dns.lookup
    compression.gzip.level compression.lz4.level compression.zstd.level config.providers enable.metrics.push
    interceptor.classes internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms partitioner.class receive.buffer.bytes
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name security.providers send.buffer.bytes
    share.acknowledgement.mode share.acquire.mode ssl.cipher.suites ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    transaction.two.phase.commit.enable
    """.split()  # noqa: SIM905 (a list would be a page)
)
"""Java's settings without an option in this client. They are accepted; any other name counts as misspelt."""
_OPTION_NAMES = """
    assign batchId checkpointLocation commitGroupId dataLossTimeoutMs deadLetterTopic endingOffsets
    endingOffsetsByTimestamp endingTimestamp exactlyOnce failOnDataLoss fetchOffset.numRetries
    fetchOffset.retryIntervalMs fromOffset groupIdPrefix includeHeaders kafkaConsumer.pollTimeoutMs keySchema
    keySubject ledgerTopic maxBytesPerTrigger maxOffsetsPerTrigger maxRecordsPerPartition maxTasks maxTriggerDelay
    minOffsetsPerTrigger minPartitions onBadRecord partitions path pushFilters queryName schema.registry.password
    schema.registry.ssl.cafile schema.registry.url schema.registry.user startingOffsets
    startingOffsetsByTimestamp startingOffsetsByTimestampStrategy startingTimestamp subscribe subscribePattern
    topic transactionalIdPrefix untilOffset valueSchema valueSubject
""".split()  # noqa: SIM905 (a list would be a page)
"""Options of sources and sinks, and options that Spark itself adds."""
KEYS = (f"{PREFIX}ssl.keystore.key", f"{PREFIX}ssl.keydata")
"""Secrets that Spark shows by default: their names contain neither "password", "secret", "token" nor "url"."""
_mentioned: set[str] = set()
"""Options and columns that this process has already logged."""


def kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by name in lower case, with variables of config providers replaced.

    Raises ValueError for a variable that cannot be resolved.
    """
    given = {name.lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)}
    return {name[len(PREFIX) :]: value for name, value in with_variables(given).items()}


def mention_unknown(options: Mapping[str, str]) -> None:
    """Log a warning for each unknown option, once per process.

    Unknown options raise no error, because Spark's connector ignores them silently.
    """
    for given in options:
        name = given.lower()
        if not (name in _known() or name.startswith(_KNOWN_PREFIXES) or name in _mentioned):
            _warn_of_unknown(given)


def mention_key(options: Mapping[str, str]) -> None:
    """Warn, once per process, of a private key in an option, unless a config provider supplies the key."""
    for name in KEYS:
        if "${" in options.get(name, "${") or name in _mentioned:
            continue
        _mentioned.add(name)
        _log.warning(
            "option '%s' is visible in Spark's UI, REST API and event logs. To hide it, call "
            "aiokafka_lead.spark.register(spark) first. Alternatively, read the key with a config provider "
            "('${env:NAME}' with kafka.config.providers), or from a file with kafka.ssl.keystore.location",
            name,
        )


def mention_column(given: str, name: str) -> None:
    """Log a warning, once per process, for a column that the sink ignores because of upper-case letters."""
    if given not in _mentioned:
        _mentioned.add(given)
        _log.warning("column '%s' is ignored, because only a column named '%s' is written", given, name)


def refuse_owned(options: Mapping[str, str], owned: Mapping[str, str]) -> None:
    """Raise ValueError for a setting that the source or sink controls. ``owned`` maps these settings to reasons."""
    for name in kafka_settings(options):
        if name in owned:
            raise ValueError(f"option '{PREFIX}{name}' is not supported: {owned[name]}")


def bootstrap_servers(options: Mapping[str, str]) -> str:
    """Return the bootstrap servers. Raises ValueError if there are none."""
    servers = kafka_settings(options).get(BOOTSTRAP, "").strip()
    if not servers:
        raise ValueError("option 'kafka.bootstrap.servers' must be specified")
    return servers


def client_options(options: Mapping[str, str], config: type[ClientConfig]) -> dict[str, Any]:
    """Return the keyword arguments for a client with this configuration class, without ``bootstrap_servers``.

    Raises ValueError for a value of the wrong type. The client's constructor makes all other checks.
    """
    settings = {
        name: text for name, text in kafka_settings(options).items() if text.strip() or name not in _MAYBE_EMPTY
    }
    idle = _idle_prefixes(settings)
    settings = {name: text for name, text in settings.items() if not name.startswith(idle)}
    types = {name: str(field.type) for name, field in config.__dataclass_fields__.items()}
    found: dict[str, Any] = {}
    for name, text in settings.items():
        own = name.replace(".", "_")
        convert = _converter(own, types.get(own))
        # Other code looks up settings by their names with dots, so it would miss this spelling.
        if convert is not None and "_" in name:
            raise ValueError(f"option '{PREFIX}{name}' must be written as '{PREFIX}{own.replace('_', '.')}'")
        if convert is not None:
            found[own] = convert(f"{PREFIX}{name}", type(text)(text.strip()))
        elif not _READ_APART.fullmatch(name):
            _mention(name)
    level = _level_name(found)
    if level in settings and "compression_level" in types:
        found["compression_level"] = _number(int)(f"{PREFIX}{level}", settings[level].strip())
    if found.get("security_protocol", "").startswith("SASL_"):
        login = login_options(settings, found)
        if "sasl_oauth_token_provider" in login:  # the callback handler, as in Java, does not use these settings
            found = {name: value for name, value in found.items() if name not in FLAT_OPTIONS}
        found.update(login)
    if found.get("security_protocol", "").endswith("SSL"):
        found.update(tls_options(settings))
    _adjust(found, config)
    return found


BATCH_SIZE = 128 * 1024
"""Default of ``kafka.batch.size`` in bytes, larger than in a producer: all rows of a task are available at once."""

LINGER_MS = 100
"""Default of ``kafka.linger.ms``. It delays nothing, because a task flushes the producer after its last row.

With many partitions, batches become larger.
"""


def producer_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments for a producer, without ``bootstrap_servers``.

    Raises ValueError for a value of the wrong type.
    """
    given = client_options(options, ProducerConfig)
    given.setdefault("batch_size", min(BATCH_SIZE, given.get("batch_size_max", BATCH_SIZE)))
    if "delivery_timeout_ms" not in given:  # it must be longer than the linger time
        given.setdefault("linger_ms", LINGER_MS)
    return given


def _idle_prefixes(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return prefixes of settings that Java ignores with this security protocol and SASL mechanism."""
    if not settings.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return ("sasl.mechanism", *_OF_MECHANISM.values())
    mechanism = settings.get("sasl.mechanism", "GSSAPI").strip().upper()
    return tuple(prefix for name, prefix in _OF_MECHANISM.items() if name != mechanism)


def _adjust(found: dict[str, Any], config: type[ClientConfig]) -> None:
    """Replace values that only Java accepts with equivalent values of this client."""
    for name, most in [*found.items()]:
        least = name.replace("_max_ms", "_ms")
        if least != name and found.get(least, config.__dataclass_fields__[least].default) > most:
            found[least] = most
    if found.get("connections_max_idle_ms", 0) < 0:
        found["connections_max_idle_ms"] = INT64_MAX  # never


def configuration(options: Mapping[str, str], config: type[C], given: dict[str, Any]) -> C:
    """Return the configuration of a client. ``given`` is the result of `client_options` for these options.

    Raises ValueError for invalid options, and names them as the user wrote them.
    """
    try:
        return config.from_options(bootstrap_servers(options), given)
    except (ConfigError, ConfigTypeError) as error:
        raise ValueError(_as_written(str(error), config, given)) from None


def _as_written(message: str, config: type[ClientConfig], given: Mapping[str, Any]) -> str:
    """In a message, replace this client's option names with the names of Spark options, except in quoted texts."""
    names = {name: PREFIX + name.replace("_", ".") for name in (*config.__dataclass_fields__, "sasl_*")}
    names["compression_level"] = PREFIX + _level_name(given)
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w'\"./])({known})(?!\w)", lambda match: names[match[1]], message)


def _level_name(given: Mapping[str, Any]) -> str:
    """Return Java's name of the compression level, which differs by codec (KIP-390)."""
    return f"compression.{given.get('compression_type', 'none')}.level"


def _converter(own: str, kind: str | None) -> Callable[[str, str], Any] | None:
    """Return a function from name and text to the option's value, or None if it cannot be set from text."""
    if kind is None or any(word in kind for word in _NO_TEXT):
        return None
    if own == "acks":
        return lambda name, text: "all" if text == "all" else _number(int)(name, text)
    if own in ("security_protocol", "sasl_mechanism"):
        return lambda name, text: text.upper()
    if kind == "bool":
        return truth
    if kind.startswith("int"):
        return _number(int)
    if kind.startswith("float"):
        return _number(float)
    return lambda name, text: text


def _number(kind: Callable[[str], float]) -> Callable[[str, str], float]:
    def convert(name: str, text: str) -> float:
        try:
            if "_" in text or not text.isascii():  # Python would accept 1_000 and non-ASCII digits, Java does not
                raise ValueError
            return kind(text)
        except ValueError:
            raise ValueError(f"option '{name}' must be a number, not '{text}'") from None

    return convert


def truth(name: str, text: str) -> bool:
    """Parse ``true`` or ``false``, in upper or lower case as in Scala. Raises ValueError for other text."""
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(f"option '{name}' must be true or false, not '{text}'")
    return word == "true"


def boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    """Return the value of a boolean option, or the default if it is not set. Raises ValueError for other text."""
    text = options.get(name)
    return default if text is None else truth(name, text)


def integer(options: Mapping[str, str], name: str, low: int = -INT64_MAX - 1, high: int = INT64_MAX) -> int | None:
    """Return the value of an integer option, parsed as in Scala, or None if it is not set.

    Raises ValueError if it is not an integer from ``low`` to ``high``.
    """
    text = options.get(name)
    if text is None:
        return None
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"option '{name}' must be an integer, not '{text}'")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"option '{name}' must be from {low} to {high}, not {number}")
    return number


def _mention(name: str) -> None:
    """Log once per process that a setting is ignored, as a warning if Java has no such setting."""
    given = f"{PREFIX}{name}"
    if given in _mentioned:
        return
    if given not in _known():
        _warn_of_unknown(given)
    else:
        _mentioned.add(given)
        _log.info("option '%s' concerns only Java clients and is ignored", given)


def _warn_of_unknown(given: str) -> None:
    name, known = given.lower(), _known()
    _mentioned.add(name)
    with_prefix = f"{PREFIX}{name}"
    alike = [with_prefix] if with_prefix in known else get_close_matches(name, known, 1, 0.8)
    hint = f"; did you mean '{known[alike[0]]}'?" if alike else ""
    _log.warning("option '%s' is unknown and is ignored%s", given, hint)


@cache
def _known() -> dict[str, str]:
    """Return the names of all known options, by their names in lower case."""
    fields = (config.__dataclass_fields__ for config in (AdminConfig, ConsumerConfig, ProducerConfig))
    settings = _JAVA_SETTINGS.union(name.replace("_", ".") for names in fields for name in names)
    return {name.lower(): name for name in (*_OPTION_NAMES, *(f"{PREFIX}{name}" for name in settings))}
