"""Settings that are read from the environment and from files, with Java's config providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafka_lead.config import ProducerConfig
from aiokafka_lead.spark.kafka_options import client_options, kafka_settings

_CLASSES = {
    "env": "EnvVarConfigProvider",
    "directory": "DirectoryConfigProvider",
    "file": "FileConfigProvider",
}


def _given(**settings: str) -> dict[str, str]:
    declared = {f"kafka.config.providers.{name}.class": f"org.apache.kafka.common.config.provider.{kind}"
                for name, kind in _CLASSES.items()}  # fmt: skip
    given = {f"kafka.{name.replace('__', '.')}": text for name, text in settings.items()}
    return {"kafka.config.providers": "env, directory,file", **declared, **given}


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT", "me")
    assert client_options(_given(client__id="${env:CLIENT}-${env::CLIENT}"), ProducerConfig)["client_id"] == "me-me"


def test_files_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("one\ntwo\n")
    assert kafka_settings(_given(x=f"${{directory:{tmp_path}:key.pem}}"))["x"] == "one\ntwo\n"


def test_properties_files(tmp_path: Path) -> None:
    file = tmp_path / "some.properties"
    file.write_text(
        "# C:\\\npassword = no\n # password = no\n! key: no\n\npassword = s;c=ret\nkey=one\\n\\\n   two\n"
        "plain value of it\ncolon:c\nback=a\\\\\nempty=\n"
    )
    found = kafka_settings(
        _given(**{name: f"${{file:{file}:{name}}}" for name in ("password", "key", "plain", "colon", "back", "empty")})
    )
    assert found["password"] == "s;c=ret"
    assert found["key"] == "one\ntwo"
    assert (found["plain"], found["colon"], found["back"], found["empty"]) == ("value of it", "c", "a\\", "")


def test_characters_beyond_ascii(tmp_path: Path) -> None:
    """Java's Properties have the same outcomes, and escape such characters when they write a file."""
    file = tmp_path / "some.properties"
    file.write_bytes("a=x\nescaped=caf\\u00E9 \\ud83d\\ude00\r\nplain=caf\u00e9\u2028\x85x\na=last".encode())
    (tmp_path / "raw").write_bytes("p\u00e4ss\r\n".encode())
    names = {name: f"${{file:{file}:{name}}}" for name in ("escaped", "plain", "a")}
    found = kafka_settings(_given(raw=f"${{directory:{tmp_path}:raw}}", **names))
    assert (found["escaped"], found["raw"]) == ("caf\u00e9 \U0001f600", "p\u00e4ss\r\n")
    assert (found["plain"], found["a"]) == ("caf\u00e9\u2028\x85x", "last")
    file.write_bytes("a=\u00e9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"'kafka\.x': .* cannot be read: it is not valid UTF-8"):
        kafka_settings(_given(x=f"${{file:{file}:a}}"))


def test_providers_that_are_not_declared_leave_the_text() -> None:
    assert kafka_settings({"kafka.x": "${env:HOME}"}) == {"x": "${env:HOME}"}
    assert kafka_settings({"kafka.x": "${env:HOME}", "kafka.config.providers": "env"})["x"] == "${env:HOME}"
    assert kafka_settings(_given(x="${vault:a:b} ${env}"))["x"] == "${vault:a:b} ${env}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            _given(x="${env:NO_SUCH_NAME}"),
            r"'kafka\.x': .*env:NO_SUCH_NAME.* cannot be read: the entry does not exist",
        ),
        (_given(x="${directory:/no/such:key}"), "cannot be read: No such file"),
        (_given(x="${file:/no/such:key}"), "cannot be read: No such file"),
        (_given(config__providers__env__class="a.b.Vault"), "must name one of Java's EnvVarConfigProvider"),
        (_given(config__providers__file__param__allowed__paths="/"), r"param\.allowed\.paths' is not supported"),
    ],
)
def test_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kafka_settings(options)
