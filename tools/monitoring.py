"""Generates a table in the documentation, a Grafana dashboard, and Prometheus alert rules from the table of metrics.

Run it with ``python -m tools.monitoring``; ``--check`` reports outdated files instead of writing them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka_lead.prometheus import METRICS, KafkaMetric

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "observability.md"
DASHBOARD = DOCS / "monitoring" / "dashboard.json"
ALERTS = DOCS / "monitoring" / "alerts.yml"

NAMES: Mapping[str, KafkaMetric] = {metric.name: metric for metric in chain.from_iterable(METRICS.values())}


# --- the docs' table -------------------------------------------------------------------------------------------------


def table() -> str:
    """Return a Markdown table with a row for every metric."""
    lines = ["| metric | labels besides `client_id` | kind | unit | meaning |", "|---|---|---|---|---|"]
    for metric in NAMES.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels[1:])
        says = metric.text.removesuffix(".")
        lines.append(f"| `{metric.name}` | {labels} | {metric.kind} | {metric.unit} | {says} |")
    return "\n".join(lines)


def shown(metric: KafkaMetric) -> str:
    """Return the name of a metric in a scrape of Prometheus."""
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name


def page() -> str:
    """Return the page of the documentation with the current table."""
    text = PAGE.read_text()
    made = f"<!-- made by tools/monitoring.py -->\n{table()}\n<!-- until here -->"
    return re.sub(r"<!-- made by tools/monitoring.py -->.*?<!-- until here -->", lambda _: made, text, flags=re.DOTALL)


# --- alerts ----------------------------------------------------------------------------------------------------------


class Alert(NamedTuple):
    """Alert rule. ``{NAME}`` in ``expr`` stands for a metric of the table."""

    name: str
    severity: str
    expr: str
    for_: str
    summary: str
    cure: str


RULES = (
    Alert(
        "KafkaClientUnhealthy",
        "critical",
        "{kafka_producer_healthy} == 0 or {kafka_consumer_healthy} == 0 or {kafka_share_consumer_healthy} == 0"
        " or {kafka_outbox_healthy} == 0",
        "5m",
        "{{ $labels.client_id }} finds a problem in its health()",
        "GET /health/ready of the process, or its log, names the problem.",
    ),
    Alert(
        "KafkaRecordsGivenUp",
        "critical",
        "increase({kafka_producer_records_failed}[10m]) > 0",
        "0m",
        "{{ $labels.client_id }} has given up records for {{ $labels.topic }}",
        "The log of aiokafka_lead.producer says why; what the caller did not send again is lost.",
    ),
    Alert(
        "KafkaSendsSlow",
        "warning",
        "histogram_quantile(0.99, sum by (le, client_id) (rate({kafka_producer_send_latency_seconds}[5m]))) > 2",
        "10m",
        "1 % of the batches of {{ $labels.client_id }} take longer than 2 s",
        "request_latency of metrics() names the broker that is slow.",
    ),
    Alert(
        "KafkaBufferFull",
        "warning",
        "rate({kafka_producer_buffer_waits}[5m]) > 0",
        "10m",
        "Sends of {{ $labels.client_id }} wait for buffer_memory",
        "Brokers take less than is sent: send less at a time, or raise buffer_memory for peaks.",
    ),
    Alert(
        "KafkaConsumerStuck",
        "critical",
        "{kafka_consumer_stuck_partitions} > 0",
        "5m",
        "{{ $value }} partitions of {{ $labels.client_id }} do not advance",
        "health().stuck says which ones and why.",
    ),
    Alert(
        "KafkaConsumerFallsBehind",
        "warning",
        "sum by (client_id, topic) ({kafka_consumer_lag}) > 1000"
        " and sum by (client_id, topic) (deriv({kafka_consumer_lag}[15m])) > 0",
        "15m",
        "{{ $labels.client_id }} is {{ $value }} records behind in {{ $labels.topic }}, and falls further behind",
        "Handlers are slower than what arrives: more concurrency, members or partitions.",
    ),
    Alert(
        "KafkaPositionsReset",
        "warning",
        "increase({kafka_consumer_offset_resets}[10m]) > 0",
        "0m",
        "auto_offset_reset has moved positions of {{ $labels.client_id }}",
        "Of a group that has committed before, records were skipped or come again: retention is too short.",
    ),
    Alert(
        "KafkaFetchesFail",
        "warning",
        "rate({kafka_consumer_failed_fetches}[5m]) > 0.1 * rate({kafka_consumer_fetches}[5m])",
        "10m",
        "One fetch of {{ $labels.client_id }} in ten gets no answer",
        "A broker or the way to it is away: the log of aiokafka_lead.connection names it.",
    ),
    Alert(
        "KafkaRebalancesOften",
        "warning",
        "increase({kafka_consumer_rebalance_latency_seconds}[30m]) > 6",
        "0m",
        "The group of {{ $labels.client_id }} has rebalanced {{ $value }} times in half an hour",
        "Members come and go: restarts, handlers beyond max_poll_interval_ms, or a blocked event loop.",
    ),
    Alert(
        "KafkaCommitsSlow",
        "warning",
        "histogram_quantile(0.99, sum by (le, client_id) (rate({kafka_consumer_commit_latency_seconds}[5m]))) > 2",
        "10m",
        "1 % of the commits of {{ $labels.client_id }} take longer than 2 s",
        "The coordinator's broker is slow, or its __consumer_offsets partition lacks in-sync replicas.",
    ),
    Alert(
        "KafkaLocksLost",
        "warning",
        "increase({kafka_share_consumer_records_lost}[10m]) > 0",
        "0m",
        "{{ $labels.client_id }} was too late for records of {{ $labels.topic }}: they are delivered again",
        "The loop was blocked for longer than the group's share.record.lock.duration.ms.",
    ),
    Alert(
        "KafkaRecordsRejected",
        "warning",
        "increase({kafka_share_consumer_records_rejected}[10m]) > 0",
        "0m",
        "{{ $labels.client_id }} has rejected records of {{ $labels.topic }}",
        "Look into the dead-letter topic, or the log of aiokafka_lead.consumer.",
    ),
    Alert(
        "KafkaOutboxWaits",
        "warning",
        "{kafka_outbox_oldest_waiting_seconds} > 60",
        "5m",
        "A record has waited in the outbox of {{ $labels.client_id }} for {{ $value }} s",
        "health() of the relay says what it waits for; the log of aiokafka_lead.outbox does, too.",
    ),
    Alert(
        "KafkaOutboxSetAside",
        "warning",
        "increase({kafka_outbox_records_set_aside}[10m]) > 0",
        "0m",
        "{{ $labels.client_id }} has set aside records of its outbox",
        "Their rows have the reason in the column refusal; they are published once that is NULL again.",
    ),
)


def expression(rule: Alert) -> str:
    """Return the expression of a rule with the names of metrics in a scrape.

    A histogram becomes its buckets if the expression computes a quantile, and otherwise its count.
    """

    def name(match: re.Match[str]) -> str:
        metric = NAMES[match[1]]
        if metric.kind != "histogram":
            return shown(metric)
        return f"{metric.name}_{'bucket' if 'quantile' in rule.expr else 'count'}"

    return re.sub(r"\{(\w+)\}", name, rule.expr)


def alerts() -> str:
    """Return the alert rules in YAML, with strings in the notation of JSON."""
    lines = ["groups:", "  - name: aiokafka-lead", "    rules:"]
    for rule in RULES:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(expression(rule))}",
            f"        for: {rule.for_}",
            f"        labels: {{severity: {rule.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.cure)}",
        ]
    return "\n".join([*lines, ""])


# --- the dashboard ---------------------------------------------------------------------------------------------------

ROWS = {
    "kafka_producer": "Producers",
    "kafka_consumer": "Consumers",
    "kafka_share_consumer": "Share consumers",
    "kafka_outbox": "Outboxes",
}
WIDTH, HEIGHT, ACROSS = 8, 7, 3
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOICE = '{job=~"$job",client_id=~"$client_id"}'
UNITS = {"seconds": "s", "bytes": "bytes"}


def dashboard() -> str:
    """Return the dashboard in JSON, with a row for each kind of client, and a panel for each metric."""
    numbers = count(1)
    panels = list(overview(numbers))
    top = HEIGHT
    for (prefix, title), metrics in zip(ROWS.items(), METRICS.values(), strict=True):
        place = {"h": 1, "w": 24, "x": 0, "y": top}
        panels.append(
            {"type": "row", "id": next(numbers), "title": title, "gridPos": place, "collapsed": False, "panels": []}
        )
        top += 1
        for index, metric in enumerate(metrics):
            x, y = index % ACROSS * WIDTH, top + index // ACROSS * HEIGHT
            title = metric.name.removeprefix(f"{prefix}_").replace("_", " ")
            panels.append(
                panel(next(numbers), "timeseries", title, metric.text, x, y, WIDTH, queries(metric), unit(metric))
            )
        top += -(-len(metrics) // ACROSS) * HEIGHT
    made = {
        "uid": "aiokafka-lead",
        "title": "Kafka clients (aiokafka-lead)",
        "tags": ["kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [*variables()]},
        "panels": panels,
    }
    return json.dumps(made, indent=1) + "\n"


def variables() -> Iterator[dict[str, Any]]:
    """Yield the variables of the dashboard, which users select at the top."""
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    healthy = "|".join(f"{prefix}_healthy" for prefix in ROWS)
    for label in ("job", "client_id"):
        others = "" if label == "job" else ',job=~"$job"'
        query = f'label_values({{__name__=~"{healthy}"{others}}}, {label})'
        yield {
            "name": label,
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": query, "refId": label},
            "definition": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def overview(numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Yield the panels with the most important figures."""
    healthy = " or ".join(f"{prefix}_healthy{CHOICE}" for prefix in ROWS)
    looks = (
        ("clients that are not healthy", f"count(({healthy}) == 0) or vector(0)", "short", 1),
        (
            "records given up, 1 h",
            f"sum(increase(kafka_producer_records_failed_total{CHOICE}[1h])) or vector(0)",
            "short",
            1,
        ),
        ("records behind", f"sum(kafka_consumer_lag{CHOICE}) or vector(0)", "short", 1000),
        ("partitions stuck", f"sum(kafka_consumer_stuck_partitions{CHOICE}) or vector(0)", "short", 1),
    )
    width = 24 // len(looks)
    for index, (title, expr, measure, bad) in enumerate(looks):
        made = panel(next(numbers), "stat", title, "", index * width, 0, width, [(expr, "")], measure)
        steps = [{"color": "green", "value": None}, {"color": "red", "value": bad}]
        made["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": steps}
        yield made


def panel(
    number: int,
    kind: str,
    title: str,
    text: str,
    x: int,
    y: int,
    width: int,
    asked: list[tuple[str, str]],
    measure: str,
) -> dict[str, Any]:
    """Return a panel with these queries."""
    return {
        "id": number,
        "type": kind,
        "title": title,
        "description": text,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT, "w": width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": measure, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for index, (expr, legend) in enumerate(asked)
        ],
    }


def queries(metric: KafkaMetric) -> list[tuple[str, str]]:
    """Return the queries of a metric's panel, with the names of their lines."""
    labels = ", ".join(metric.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    match metric.kind:
        case "counter":
            return [(f"sum by ({labels}) (rate({shown(metric)}{CHOICE}[$__rate_interval]))", legend)]
        case "gauge":
            return [
                (f"{'min' if metric.name.endswith('healthy') else 'max'} by ({labels}) ({metric.name}{CHOICE})", legend)
            ]
        case "histogram":
            rate = f"sum by (le, {labels}) (rate({metric.name}_bucket{CHOICE}[$__rate_interval]))"
            return [(f"histogram_quantile({part}, {rate})", f"{legend} {part:.0%}") for part in (0.5, 0.99)]


def unit(metric: KafkaMetric) -> str:
    """Return the name of a metric's unit in Grafana."""
    if metric.kind == "counter":
        return "Bps" if metric.unit == "bytes" else "cps"
    return UNITS.get(metric.unit, "short")


# --- all of it -------------------------------------------------------------------------------------------------------


def made() -> dict[Path, str]:
    """Return the generated content of each file."""
    return {PAGE: page(), DASHBOARD: dashboard(), ALERTS: alerts()}


def main() -> int:
    """Write the files, or with ``--check`` only report outdated files. Return the exit status."""
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--check" in sys.argv:
            sys.stdout.write(f"{path.name} is out of date: python -m tools.monitoring\n")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made()[path])
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
