"""Generates pages of the documentation from docstrings, and checks links.

``python -m tools.docs_pages`` writes ``docs/options.md`` and ``docs/errors.md``. With ``--check``, it fails if they
differ from the sources, or if a document has a dead link. As a hook of mkdocs (``make docs``), this module adds pages,
pictures and scripts from other folders of the repository, and fails if the search of the site does not find its pages.
"""

from __future__ import annotations

import argparse
import ast
import html
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from aiokafka_lead import errors
from aiokafka_lead._core.run.options import RunConfig, ShareRunConfig
from aiokafka_lead._io.client import Facade
from aiokafka_lead.config import AdminConfig, ConsumerConfig, ProducerConfig, options, run
from aiokafka_lead.config.share import ShareConsumerConfig

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig  # pyright: ignore[reportMissingImports]
    from mkdocs.structure.files import Files  # pyright: ignore[reportMissingImports]
    from mkdocs.structure.pages import Page  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "aiokafka_lead"
DOCS = ROOT / "docs"
SCRIPTS = {
    "mermaid.tiny.js": ROOT / ".cache" / "mermaid" / "package" / "dist" / "mermaid.tiny.js",
    "iframe-worker.js": ROOT / ".cache" / "iframe-worker" / "package" / "shim" / "index.js",
}
"""Scripts for the browser, which `make docs` downloads.

The first draws diagrams. The second makes the search work if pages are opened from a folder.
"""
FOUND = {
    "SASL_SSL": "security.html",
    "docker": "deployment.html",
    "graceful shutdown": "deployment.html",
    "share group": "queues.html",
    "exactly once": "delivery.html",
    "dead letter": "run.html",
    "prometheus": "observability.html",
    "DeliveryTimeoutError": "errors.html",
}
"""Typical searches, each with a page that must be among the first three results."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages, pictures and scripts from other folders to the site."""
    from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

    files.append(File.generated(config, "spark.md", content=spark_page()))
    for picture in sorted((ROOT / "benchmarks" / "results").glob("*.svg")):
        files.append(File.generated(config, f"pictures/{picture.name}", abs_src_path=str(picture)))
    for name, script in SCRIPTS.items():
        if not script.exists():
            raise FileNotFoundError(f"{script} is missing: `make docs` fetches it")
        files.append(File.generated(config, name, abs_src_path=str(script)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Rewrite links to files outside of the documentation to their copies in the site, and order methods of clients."""
    markdown = markdown.replace("](../aiokafka_lead/spark/README.md", "](spark.md")
    markdown = markdown.replace("](../benchmarks/results/", "](pictures/")
    return re.sub(r"^::: (\S+)$", in_order, markdown, flags=re.MULTILINE)


def in_order(reference: re.Match[str]) -> str:
    """List the methods of a client before the methods of all clients, which mkdocstrings would mix."""
    client = resolve_name(reference[1])
    if not issubclass(client, Facade):
        return reference[0]
    names = {name: None for kind in client.__mro__ for name in vars(kind) if name[0] != "_" and hasattr(client, name)}
    members = f"[{', '.join(['__init__', *names])}]"
    return f"{reference[0]}\n    options: {{ group_by_category: false, members: {members} }}"


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Add Mermaid to pages with diagrams, which the theme would load from another site, and break long names."""
    output = re.sub(r"<code>(\w{12,})</code>(?=</td>)", with_breaks, output)
    if 'class="mermaid"' not in output:
        return output
    script = f'<script src="{page.url.count("/") * "../"}mermaid.tiny.js"></script>'
    return output.replace("</body>", f"{script}</body>")


def with_breaks(name: re.Match[str]) -> str:
    """Return a name as HTML that may break between its words, for narrow tables."""
    return f"<code>{re.sub(r'(?<=_)(?=[a-z])|(?<=[a-z])(?=[A-Z])', '<wbr>', name[1])}</code>"


def on_post_build(config: MkDocsConfig, **_: object) -> None:
    """Raise ValueError if typical searches do not find the right pages. Runs the search of the theme with Node."""
    environment = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    command = ["node", str(ROOT / "tools" / "site_search.mjs"), config.site_dir, *FOUND]
    pages = json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    if missed := {query: pages[query][:3] for query, page in FOUND.items() if page not in pages[query][:3]}:
        raise ValueError(f"the search finds other pages first: {missed}")


def cell(text: str) -> str:
    """Return a docstring as the cell of a Markdown table, on one line."""
    return re.sub(r"\s+", " ", text.replace("``", "`").replace("|", "\\|")).strip()


def code(text: str) -> str:
    """Return a type as the cell of a table, in HTML because ``|`` in Markdown code would end the cell."""
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


# --- options ---------------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """Option, as declared in its class."""

    name: str
    kind: str
    text: str


def described() -> dict[str, list[Option]]:
    """Return the options by the class that declares them."""
    found: dict[str, list[Option]] = {}
    for path in (*PACKAGE.glob("config/*.py"), PACKAGE / "outbox" / "options.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and "Options" in node.name:
                found[node.name] = [*documented(node)]
    return found


def documented(node: ast.ClassDef) -> Iterator[Option]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            kind = re.sub(r"\w+", lambda word: ALIASES.get(word[0], word[0]), ast.unparse(field.annotation))
            yield Option(field.target.id, kind, str(ast.literal_eval(text.value)))


def values(kind: Any) -> str:
    """Return the permitted values of a Literal, or of a union of a Literal with a type, as in an annotation."""
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    return kind.__name__ if isinstance(kind, type) else " | ".join(map(values, get_args(kind)))


ALIASES = {
    name: values(kind) for module in (options, run) for name, kind in vars(module).items() if "Literal[" in str(kind)
}
"""Values of the types that have a name, such as `CompressionType`."""


def options_page() -> str:
    """Return the page with all options, their defaults and meanings."""
    classes = described()
    lines = [
        "# Options",
        "",
        "This reference lists the options of every client and of `run`. Options are keyword arguments, such as",
        '`Producer("localhost:9092", linger_ms=0)`. Times are in milliseconds. Defaults are in parentheses.',
        "",
        "- **Names** are aiokafka's or, for options that aiokafka lacks, the Java client's in snake case. Most",
        "  defaults are Java's.",
        "- **Mistakes**: an invalid or unknown option raises `ConfigError` or `ConfigTypeError` immediately, with a",
        "  message that names the option.",
        "- **Choice**: [Tuning](tuning.md), [Deployment](deployment.md) and [Security](security.md) help you choose",
        "  values.",
    ]
    sections = {
        "Every client": ["ClientOptions"],
        "Producer": [name for name in classes if name.startswith("Producer")],
        "Consumer": [name for name in classes if name.startswith("Consumer")],
        "Share consumer": [name for name in classes if name.startswith("ShareConsumer")],
        "Admin client": ["AdminOptions"],
        "`Consumer.run`": ["RunOptions", "HandlingOptions"],
        "`ShareConsumer.run`": ["ShareRunOptions", "HandlingOptions"],
        "`outbox.Relay`": ["RelayOptions"],
        "Security, for every client": [
            name
            for name in classes
            if not name.startswith(("Client", "Producer", "Consumer", "Share", "Admin", "Run", "Handling", "Relay"))
        ],
    }
    for title, names in sections.items():
        rows = [row for name in names for row in classes.get(name, [])]
        lines += ["", f"## {title}", "", "| option | type | meaning |", "|---|---|---|"]
        lines += [f'| <a id="{row.name}"></a>`{row.name}` | {code(row.kind)} | {cell(row.text)} |' for row in rows]
    known = {row.name for rows in classes.values() for row in rows}
    for config in (ProducerConfig, ConsumerConfig, ShareConsumerConfig, AdminConfig, RunConfig, ShareRunConfig):
        missing = config.__dataclass_fields__.keys() - known - {"bootstrap_servers"}
        if missing:
            raise ValueError(f"{config.__name__}: nothing is said of {sorted(missing)}")
        assert all(field.default is not MISSING for name, field in config.__dataclass_fields__.items() if name in known)
    return "\n".join(lines) + "\n"


# --- errors ----------------------------------------------------------------------------------------------------------

ADVICE: dict[str, str] = {
    "BatchTooLargeError": "raise `max_decompressed_batch_bytes`, or skip the batch with `seek`",
    "BufferFull": "send more slowly, or wait with `send`; a web service can answer 503 with Retry-After",
    "ClientClosedError": "create a new client: a client cannot be used after `stop`",
    "ClusterIdMismatchError": "check `bootstrap_servers`: they belong to another cluster",
    "CommitFailedError": "continue reading: another member now has these partitions and may handle the records again",
    "CommitOutcomeUnknownError": "call `commit_transaction()` again to find out",
    "ConfigError": "correct the option that the message names",
    "ConfigTypeError": "correct the option that the message names",
    "CorruptBatchError": "skip the batch with a `seek` to `next_offset`, and check the broker's disk",
    "DeliveryTimeoutError": "send again if a duplicate is harmless; otherwise read the topic: the record may be stored",
    "GroupAuthorizationFailedError": "grant the principal READ on the group",
    "HandlerError": "correct the handler for the record that the message names, or set `dead_letter_topic`",
    "KafkaConnectionError": "check address, network and listeners; the message names each server and the cause",
    "LogTruncationError": "the cluster lost records: choose a position and `seek` to it",
    "MessageTooLargeError": "raise the topic's `max.message.bytes` and `max_request_size`, or send smaller records",
    "NoOffsetForPartitionError": "set `auto_offset_reset`, or `seek`",
    "NotKafkaError": "check the port and `security_protocol`: the server is not Kafka, or expects TLS",
    "NotStartedError": "`await start()` first, or use `async with`",
    "ProducerFencedError": "stop this process: another process uses the same `transactional_id`",
    "RecordDeserializationError": "`seek` past the record that it names, or use `run` with a `dead_letter_topic`",
    "RecordSerializationError": "correct the value or the serializer; the record was not sent",
    "RequestTimedOutError": "try again later: the broker is slow or unreachable",
    "SaslAuthenticationFailedError": "check user, password or token",
    "SslAuthenticationError": "check the certificates; the message says which side refused",
    "TopicAuthorizationFailedError": "grant the principal READ or WRITE on the topic",
    "TransactionAbortedError": "repeat the whole transaction in a new one",
    "UnknownTopicOrPartitionError": "create the topic, or check its name",
    "UnsupportedVersionError": "upgrade the brokers: they are too old for this call",
    "WrongEventLoopError": "use the client only on the event loop that started it",
}
"""Advice for single errors, in place of the general advice."""


def advice(error: type[errors.KafkaError]) -> str:
    if error.__name__ in ADVICE:
        return ADVICE[error.__name__]
    if error.refreshes_metadata:
        return "try again later: the client refreshed its metadata and retried until the timeout"
    if error.retriable:
        return "try again later: the client retried until the timeout"
    if issubclass(error, errors.IllegalStateError):
        return "correct the program: the message names the call"
    return "do not retry: the message names the cause"


def errors_page() -> str:
    """Return the page with all errors, their codes and advice."""
    named = {name: value for name in errors.__all__ if isinstance(value := getattr(errors, name), type)}
    kinds = [error for error in named.values() if issubclass(error, errors.KafkaError)]
    if unknown := ADVICE.keys() - named.keys():
        raise ValueError(f"there is no {sorted(unknown)}")
    lines = [
        "# Errors",
        "",
        "This reference lists all error classes, with their meanings and remedies. They are in",
        "`aiokafka_lead.errors` and derive from `KafkaError`. To look up the text of a message, see",
        "[Troubleshooting](troubleshooting.md).",
        "",
        "- `code` is Kafka's error code, or -1 if the error is not from a broker.",
        "- `retriable` is True if the same call may succeed later.",
        "- `broker` names the broker that answered.",
        "",
        "Brokers' messages can contain hosts and principals: log them, but do not show them to your users.",
    ]
    groups: dict[str, list[type[errors.KafkaError]]] = {
        "Errors of this client": [error for error in kinds if not issubclass(error, errors.BrokerError)],
        "Errors of brokers": sorted(
            (error for error in kinds if issubclass(error, errors.BrokerError)), key=lambda error: error.code
        ),
    }
    for title, members in groups.items():
        numbered = any(error.code != -1 for error in members)
        lines += ["", f"## {title}", "", f"| error |{' code |' * numbered} retriable | meaning | what to do |"]
        lines.append(f"|---|{'--:|' * numbered}---|---|---|")
        for error in members:
            meaning = (error.__doc__ or "").partition("\n\n")[0]
            goes = "yes" if error.retriable else ""
            code_of = f" {error.code} |" if numbered else ""
            lines.append(f"| `{error.__name__}` |{code_of} {goes} | {cell(meaning)} | {advice(error)} |")
    return "\n".join(lines) + "\n"


# --- other pages -----------------------------------------------------------------------------------------------------


def spark_page() -> str:
    """Return the README of the Spark package, without links to source files."""
    text = (PACKAGE / "spark" / "README.md").read_text()
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", r"\1", text)


# --- links -----------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def dead_links(documents: Iterator[Path]) -> Iterator[str]:
    """Yield a complaint for each link to a missing file or heading."""
    for document in documents:
        for target, anchor in LINK.findall(FENCED.sub("", document.read_text())):
            place = (document.parent / target).resolve() if target else document
            if not place.exists():
                yield f"{document.relative_to(ROOT)}: there is no {target}"
            elif anchor and place.suffix == ".md" and anchor not in anchors(place):
                yield f"{document.relative_to(ROOT)}: {target} has no heading #{anchor}"


@cache
def anchors(document: Path) -> set[str]:
    """Return the anchors of a document: its headings, named as on the site and on GitHub, and its ids."""
    text = FENCED.sub("", document.read_text())
    seen: Counter[str] = Counter()
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = unicodedata.normalize("NFKD", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        found.add(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def documents() -> Iterator[Path]:
    """Yield all Markdown files of the project."""
    yield from ROOT.glob("*.md")
    for folder in ("docs", "aiokafka_lead", "examples", ".github"):
        yield from (ROOT / folder).rglob("*.md")


def main() -> int:
    """Write the generated pages, or with ``--check`` compare them with the sources and check links."""
    pages = {DOCS / "errors.md": errors_page(), DOCS / "options.md": options_page()}
    parser = argparse.ArgumentParser("tools.docs_pages", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is old or a link is dead")
    if not parser.parse_args().check:
        for path, page in pages.items():
            path.write_text(page)
        return 0
    faults = [
        f"{path.relative_to(ROOT)} differs from the sources: run python -m tools.docs_pages"
        for path, page in pages.items()
        if not path.exists() or path.read_text() != page
    ]
    faults += dead_links(documents())
    print("\n".join(faults) or "Generated pages and links hold", file=sys.stderr if faults else sys.stdout)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
