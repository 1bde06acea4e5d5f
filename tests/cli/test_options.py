"""Sources of the command line's options, and the errors without them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.cli.places import moment_ms, shown_time
from aiokafka_lead.cli.profiles import options_of, profile_path
from aiokafka_lead.errors import ConfigError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .conftest import CommandLine


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def options(path: Path, *settings: str, profile: str | None = None, **environment: str) -> dict[str, object]:
    path.touch(0o600)
    return options_of(
        servers=None,
        profile=profile,
        settings=settings,
        environment={"AIOKAFKA_LEAD_CONFIG": str(path), **environment},
        ask=None,
        note=pytest.fail,
    )


def test_the_command_line_goes_before_the_environment_before_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, '[profiles.default]\nbootstrap_servers = "a:1"\nclient_id = "p"\nlinger_ms = 1\n[profiles.b]\n')
    assert options(path) == {"bootstrap_servers": "a:1", "client_id": "p", "linger_ms": 1}
    found = options(path, "linger_ms=3", AIOKAFKA_LEAD_CLIENT_ID="e", AIOKAFKA_LEAD_LINGER_MS="2")
    assert found == {"bootstrap_servers": "a:1", "client_id": "e", "linger_ms": 3.0}
    found = options(path, profile="b", AIOKAFKA_LEAD_BOOTSTRAP_SERVERS="c:1", AIOKAFKA_LEAD_CHECK_CRCS="no")
    assert found == {"bootstrap_servers": "c:1", "check_crcs": False}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (("sasl_plain_password=x",), "sasl_plain_password is a secret"),
        (("ssl_keydata=x",), "AIOKAFKA_LEAD_SSL_KEYDATA"),
        (("proxy_url=socks5://user:password@proxy:1080",), "AIOKAFKA_LEAD_PROXY_URL"),
        (("nothing=1",), "no such option"),
        (("linger_ms",), "NAME=VALUE"),
        (("linger_ms=soon",), "linger_ms: 'soon'"),
        (("sasl_plain_password:password",), "'=' is missing after 'sasl_plain_password'"),
    ],
)
def test_what_the_command_line_does_not_take(tmp_path: Path, settings: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        options(tmp_path / "none.toml", *settings, AIOKAFKA_LEAD_BOOTSTRAP_SERVERS="a:1")
    assert ":password" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        ("[profiles.x", 0o600, "cannot read"),
        ("[profiles.y]", 0o600, "no profile 'x'; its profiles: 'y'"),
        ('[profiles.x]\nservers = "a"', 0o600, "servers is not an option"),
        ('[profiles.x]\nsasl_plain_password = "s"', 0o644, "chmod 600"),
        ("[profiles]\nx = 1", 0o600, "must be a table"),
        ("profiles = 1", 0o600, "'profiles' must be a table"),
        ("[profile.x]\nlinger_ms = 1\n[profiles.x]", 0o600, "'profile' is outside the tables"),
        ('client_id = "c"\n[profiles.x]', 0o600, "'client_id' is outside the tables"),
    ],
)
def test_profiles_that_cannot_be_used(tmp_path: Path, text: str, mode: int, expected: str) -> None:
    path = tmp_path / "config.toml"
    write(path, text, mode)
    with pytest.raises(ConfigError, match=expected):
        options(path, profile="x")


def test_variables_that_are_empty_or_misspelt(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write(path, '[profiles.default]\nbootstrap_servers = "a:1"\nlinger_ms = 1\n')
    empty = dict.fromkeys(("AIOKAFKA_LEAD_BOOTSTRAP_SERVERS", "AIOKAFKA_LEAD_LINGER_MS", "AIOKAFKA_LEAD_PROFILE"), "")
    assert options(path, **empty) == {"bootstrap_servers": "a:1", "linger_ms": 1}
    cli.environment["AIOKAFKA_LEAD_SASL_USERNAME"] = "ann"
    said, *_ = cli.fine("topics", "list").err.splitlines()
    assert said.startswith("AIOKAFKA_LEAD_SASL_USERNAME is ignored")
    assert "'AIOKAFKA_LEAD_SASL_PLAIN_USERNAME'" in said


@pytest.mark.parametrize(
    "command",
    [
        "topics list -P %",
        "copy words others --to-profile %",
        "consume words --until end -o %",
        "replay words --to %",
        "acls add -u User:a -o read -r topic -n %",
    ],
)
def test_the_text_of_a_variable_that_is_not_set_is_no_choice(
    cli: CommandLine, cluster: ClusterThread, command: str
) -> None:
    """Otherwise a default would take its place: another cluster, or another topic."""
    if "words" not in cluster.topic_names():
        cluster.create_topic("words", 1)
    ran = cli(*[word.replace("%", "") for word in command.split()])
    assert (ran.code, "empty" in ran.err or "not ''" in ran.err) == (2, True), ran


def test_a_file_that_cannot_be_looked_for_is_none(tmp_path: Path) -> None:
    """Another user's home directory cannot be read. Root can read it, so a name that is too long fails instead."""
    home = {"AIOKAFKA_LEAD_CONFIG": "", "XDG_CONFIG_HOME": str(tmp_path / ("x" * 300))}
    found = options(tmp_path / "config.toml", AIOKAFKA_LEAD_BOOTSTRAP_SERVERS="a:1", **home)
    assert found == {"bootstrap_servers": "a:1"}
    assert profile_path({"HOME": ""}).is_absolute()


def test_files_are_utf_8_in_any_locale(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    mark = "\ufeff"  # by editors of Windows
    path.write_bytes(f'{mark}# caf\u00e9\r\n[profiles.default]\r\nbootstrap_servers = "127.0.0.1:1"\r\n'.encode())
    old = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "AIOKAFKA_LEAD_CONFIG": str(path)}
    run = subprocess.run(
        [sys.executable, "-m", "aiokafka_lead.cli", "topics", "list"],
        capture_output=True,
        env={**os.environ, **old},
        timeout=60,
        check=False,
    )
    assert run.returncode == 3, run.stderr


def test_a_setting_of_the_registry_is_checked(cli: CommandLine) -> None:
    for url, said in (
        ("5", "schema_registry_url"),
        ('"localhost:8081"', "schema_registry_url must begin with http:// or"),
        ('"http://a:8081,b:8081"', "schema_registry_url must begin with http:// or"),
        ('"http://a"\nschema_registry_user = "u"\nschema_registry_token = "t"', "must be set together"),
    ):
        write(Path(cli.environment["AIOKAFKA_LEAD_CONFIG"] or ""), f"[profiles.default]\nschema_registry_url = {url}\n")
        ran = cli("consume", "t", "--value-as", "schema")
        assert (ran.code, said in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("-b 127.0.0.1:1", "Missing command"),
        ("groups lag g --count 2", "--count needs --watch"),
        ("groups lag g --watch --fail-above 0", "needs --count"),
        ("produce t -K : -k z", "cannot be combined with --key-separator"),
        ("produce t --register", "--register needs"),
        ("produce t --key-schema k.avsc", "--key-schema needs keys"),
        ("consume t --json -f %v", "--json cannot be combined with --format"),
        ("consume t -O t.parquet --json", "--output cannot be combined"),
        ("consume t -O t.parquet -f %v", "--output cannot be combined"),
        ("consume t -O t.parquet --value-as hex", "--output writes bytes"),
        ("consume t --on-error skip", "--on-error needs"),
        ("doctor --watch soon", "--watch: 'soon'"),
        ("acls list -u alice", "must be a principal like 'User:alice'"),
        ("acls remove -u alice -y", "must be a principal like 'User:alice'"),
    ],
)
def test_options_without_an_effect_are_wrong(cli: CommandLine, command: str, said: str) -> None:
    ran = cli(*command.split())
    assert (ran.code, said in ran.err) == (2, True), ran


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1764250000123", 1_764_250_000_123),
        ("1764250000", 1_764_250_000_000),
        ("20251127", 1_764_198_000_000),
        ("2025-11-27", 1_764_198_000_000),
        ("2025-11-27T13:26:40.123Z", 1_764_250_000_123),
        ("2025-11-27T13:26:40.1239+00:00", 1_764_250_000_123),
        ("99999999", 99_999_999),
        ("0", 0),
        # Of an hour that occurs twice, the first; one that does not occur follows the hour before.
        ("2025-10-26T02:30", 1_761_438_600_000),
        ("2025-03-30T02:30", 1_743_298_200_000),
    ],
)
def test_notations_of_times(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert moment_ms(text) == expected
    time.tzset()


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_that_was_shown_leads_back_to_its_record(timestamp_ms: int) -> None:
    assert moment_ms(shown_time(timestamp_ms)) == timestamp_ms


def test_no_cluster_is_named(cli: CommandLine) -> None:
    cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = None
    ran = cli("topics", "list")
    assert (ran.code, "no bootstrap servers are set" in ran.err) == (2, True)


def test_a_named_file_of_profiles_that_does_not_exist(cli: CommandLine) -> None:
    cli.environment["AIOKAFKA_LEAD_CONFIG"] = "~/no-such-file.toml"
    cli.fine("topics", "list")  # as without profiles
    expected = f"there is no file {os.path.expanduser('~/no-such-file.toml')}"
    ran = cli("topics", "list", "-P", "prod")
    assert (ran.code, expected in ran.err) == (2, True)
    cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = None
    ran = cli("topics", "list")
    assert (ran.code, expected in ran.err) == (2, True)


def test_exit_codes(cli: CommandLine) -> None:
    assert cli("topics", "list", "-b", "127.0.0.1:1").code == 3
    assert cli("topics", "list", "--no-such-option").code == 2
    with ClusterThread(EmbeddedCluster(1, sasl_users={"alice": "secret"})) as secured:
        cli.environment |= {
            "AIOKAFKA_LEAD_BOOTSTRAP_SERVERS": secured.bootstrap_servers,
            "AIOKAFKA_LEAD_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "AIOKAFKA_LEAD_SASL_PLAIN_USERNAME": "alice",
            "AIOKAFKA_LEAD_SASL_PLAIN_PASSWORD": "wrong",
        }
        ran = cli("topics", "list")
        assert ran.code == 4
        assert "wrong" not in ran.err
        cli.environment["AIOKAFKA_LEAD_SASL_PLAIN_PASSWORD"] = "secret"
        cli.fine("topics", "list")


def test_the_program_and_its_version(cli: CommandLine) -> None:
    import aiokafka_lead

    assert cli.fine("--version").out.strip() == aiokafka_lead.__version__
    run = subprocess.run(
        [sys.executable, "-m", "aiokafka_lead", "groups", "lag", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--watch" in run.stdout


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'typer' else real(name, *rest)\n"
        "from aiokafka_lead.cli.entry import main; sys.exit(main())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    said = "aiokafka-lead needs typer; install with: pip install 'aiokafka-lead[cli]'\n"
    assert (run.returncode, run.stderr) == (2, said)
