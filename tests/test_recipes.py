"""Recipes in the documentation can be pasted: they are Python, and their options, names and arguments exist."""

from __future__ import annotations

import ast
import inspect
import json
import re
import ssl
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import trustme

from aiokafka_lead.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig

_SECRETS = ("password", "api_key", "api_secret", "client_id", "client_secret", "secret", "connection_string")
GIVEN = {**dict.fromkeys(_SECRETS, "given"), "token_id": "id", "token_hmac": "aG1hYw=="}
"""Names that the reader defines."""

DOCS = Path(__file__).parent.parent / "docs"
CONFIGS: dict[str, type[ClientConfig]] = {
    "Producer": ProducerConfig,
    "Consumer": ConsumerConfig,
    "AdminClient": AdminConfig,
}


def blocks() -> Iterator[tuple[str, str]]:
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}", found[1]


BLOCKS = dict(blocks())


def test_there_are_recipes() -> None:
    assert len(BLOCKS) >= 14


@pytest.mark.parametrize("place", BLOCKS)
def test_a_block_can_be_pasted(place: str) -> None:
    tree = ast.parse(BLOCKS[place])
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("aiokafka_lead"):
            names |= {alias.name: getattr(import_module(str(node.module)), alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in names:
            continue
        given = {keyword.arg for keyword in node.keywords}
        config = CONFIGS.get(node.func.id)
        if config is not None:
            assert given <= {*config.__dataclass_fields__, "security"}, place
        else:
            called = names[node.func.id]
            assert callable(called)
            inspect.signature(called).bind(*node.args, **{str(name): None for name in given})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files for the names in recipes, by the end of the name."""
    folder = tmp_path_factory.mktemp("recipes")
    authority = trustme.CA()
    certificate = authority.issue_cert("orders.example.org")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "own.crt")
    certificate.private_key_pem.write_to_path(folder / "own.key")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    (folder / "orders.keytab").write_bytes(b"\5\2")
    account = {
        "type": "service_account",
        "client_email": "orders@my-project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "private_key": (folder / "own.key").read_text(),
    }
    (folder / "account.json").write_text(json.dumps(account))
    kinds = {
        "ca.pem": "ca.pem",
        "ca.crt": "ca.pem",
        "user.crt": "own.crt",
        "me.pem": "own.pem",
        "service.cert": "own.crt",
    }
    kinds |= {".key": "own.key", ".keytab": "orders.keytab", "account.json": "account.json"}
    return {end: folder / name for end, name in kinds.items()}


@pytest.mark.parametrize("place", [place for place in BLOCKS if place.startswith("security.md")])
def test_a_recipe_runs(place: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe runs unchanged, with the reader's names defined and its files present."""
    if "GSSAPI" in BLOCKS[place] or "gssapi" in BLOCKS[place]:
        pytest.importorskip("gssapi")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(files["account.json"]))

    def file(found: re.Match[str]) -> str:
        return repr(str(next(path for end, path in files.items() if found[1].endswith(end))))

    source = re.sub(r'"([\w./-]+\.(?:pem|crt|cert|key|keytab))"', file, BLOCKS[place])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    namespace: dict[str, object] = {**GIVEN, "server_context": context}
    exec(compile(source, place, "exec"), namespace)
    made = [thing for name, thing in namespace.items() if name in ("producer", "cluster")]
    assert len(made) == 1, "a recipe makes one client, or a cluster"
