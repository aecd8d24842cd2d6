"""`nats3 config`, and the context that stands anywhere on a command line."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nats3_dagster.settings.config_file import set_config
from nats3_dagster_tests.support.commands import Command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "xdg/nats/context").mkdir(parents=True)
    (tmp_path / "xdg/nats/context/prod.json").write_text('{"url": "nats://c", "password": "s3cr", "user": "u"}')
    return tmp_path


def write(text: str) -> Path:
    path = Path("nats3.toml")
    path.write_text(text)
    return path


def test_the_settings_in_force_and_where_they_come_from(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", "postgresql://u:s3cr@h/d")
    monkeypatch.setenv("NATS3_ELSEWHERE", "1")
    write('owners = "team:a"')
    ran = nats3.ok("config", "show", "-o", "json", "--context", "prod")
    shown = {item["key"]: (item["value"], item["source"]) for item in ran.json}
    assert shown["postgres_url"] == ("postgresql://u:***@h/d", "environment variable NATS3_POSTGRES_URL")
    assert shown["owners"] == ("team:a", "nats3.toml")
    assert shown["nats_password"] == ("***", "NATS context prod")
    assert shown["nats_context"] == ("prod", "environment variable NATS3_NATS_CONTEXT")
    assert shown["api_listen"] == ("127.0.0.1:8080", "default")
    assert ran.err == "Warning: NATS3_ELSEWHERE is not a setting\n"
    table = nats3.ok("--context=prod", "config", "show").out
    assert "s3cr" not in table + ran.out
    assert "NATS context prod" in table
    assert "NATS3_NATS_CONTEXT" not in os.environ
    assert "NATS context prod" not in nats3.ok("config", "show").out


def test_a_context_that_is_not_named_or_not_there(nats3: Command) -> None:
    assert nats3.refused("config", "show", "--context").startswith("2 Error: --context names no context")
    assert nats3.refused("config", "show", "--context", "x").startswith("2 Error: There is no NATS context x")


def test_a_value_is_set_and_got_and_unset(nats3: Command) -> None:
    path = write("# ours\nowners = 'a' # them\n\nnats_tls_first=true\n")
    path.chmod(0o640)
    for key, value in (("server-url", "http://h:8080"), ("owners", "b"), ("nats_tls_first", "no")):
        nats3.ok("config", "set", key, value)
    assert path.read_text() == '# ours\nowners = "b" # them\n\nnats_tls_first=false\nserver_url = "http://h:8080"\n'
    assert path.stat().st_mode & 0o777 == 0o640
    assert nats3.ok("config", "get", "server-url").out == "http://h:8080\n"
    assert nats3.ok("config", "get", "output-format", "-o", "json").json == {
        "key": "output_format",
        "value": "table",
        "source": "default",
    }
    nats3.ok("config", "set", "server_url", "--unset")
    assert nats3("config", "get", "server-url").error.startswith("Error: server_url is not set")
    assert nats3.refused("config", "set", "server-url", "--unset").startswith("2 Error: nats3.toml does not set")


def test_a_secret_is_read_from_standard_input(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('owners = "a"\n')
    for key, value in (("nats-password", "s3cr"), ("postgres-url", "postgresql://u:s3cr@h/d")):
        said = nats3.refused("config", "set", key, value)
        assert "Give it on standard input" in said
        assert "s3cr" not in said
    assert path.read_text() == 'owners = "a"\n'
    nats3.ok("config", "set", "postgres-url", "postgresql://h/d")  # without a password it is no secret
    assert path.stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cr\n"))
    assert "s3cr" not in nats3.ok("config", "set", "nats-password", "-").out
    assert 'nats_password = "s3cr"' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert nats3.ok("config", "get", "nats-password").out == "***\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("serverurl", "http://h"), "2 Error: 'serverurl' is not a setting. Did you mean server-url?"),
        (("server-url", "h:8080"), "2 Error: server_url cannot be set: not an address"),
        (("output-format", "xml"), "2 Error: output_format cannot be set: Input should be 'table', 'json' or 'yaml'"),
        (("delete-grace", "soon"), "2 Error: delete_grace cannot be set: not a duration"),
        (("owners", ""), "2 Error: The value of owners is empty"),
        (("owners",), "2 Error: No value is given"),
        (("owners", "x", "--unset"), "2 Error: --unset takes no value"),
    ],
)
def test_bad_input_writes_nothing(nats3: Command, words: tuple[str, ...], text: str) -> None:
    path = write("# kept\n")
    assert nats3.refused("config", "set", *words).startswith(text)
    assert path.read_text() == "# kept\n"
    assert sorted(p.name for p in path.absolute().parent.iterdir()) == ["nats3.toml", "xdg"]


def test_a_wrong_key_in_the_file_can_be_taken_out(nats3: Command) -> None:
    path = write('nats_ulr = "x"\n')
    assert "Did you mean nats_url?" in nats3.refused("config", "show")
    assert "Did you mean nats_url?" in nats3.refused("config", "set", "owners", "a")
    nats3.ok("config", "set", "nats_ulr", "--unset")
    nats3.ok("config", "set", "owners", "a")
    assert path.read_text() == 'owners = "a"\n'


def test_a_file_of_ones_own_is_made_and_what_wins_over_it_is_named(
    nats3: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "real.toml").write_text("")
    (folder / "etc.toml").symlink_to("real.toml")
    monkeypatch.setenv("NATS3_CONFIG", "etc.toml")
    monkeypatch.setenv("NATS3_OWNERS", "team:x")
    ran = nats3.ok("config", "set", "owners", "team:y")
    assert "environment variable NATS3_OWNERS wins over it" in ran.err
    assert (folder / "etc.toml").is_symlink()
    assert (folder / "real.toml").read_text() == 'owners = "team:y"\n'


def test_two_at_once_lose_nothing() -> None:
    keys = ["nats_user", "nats_domain", "owners", "s3_region", "store_url", "spark_master", "dagster_url", "s3_profile"]
    threads = [threading.Thread(target=set_config, args=(key, "x")) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line.split()[0] for line in Path("nats3.toml").read_text().splitlines()) == sorted(keys)


def test_keys_and_contexts_are_completed() -> None:
    def completed(typed: str) -> set[str]:
        words = typed.split(" ")
        shell = {"_NATS3_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
        command = [sys.executable, "-m", "nats3_dagster.cli"]
        environment = os.environ | shell | {"PYTHONPATH": str(Path(__file__).parents[2])}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return set(ran.stdout.split())

    assert completed("nats3 config set output-f") == {"output-format"}
    assert completed("nats3 config get output_f") == {"output_format"}
    assert completed("nats3 --context p") == {"prod"}


def test_the_output_of_a_change_is_json_where_it_is_asked_for(nats3: Command, folder: Path) -> None:
    ran = nats3.ok("config", "set", "owners", "a", "-o", "json")
    assert json.loads(ran.out) == {"key": "owners", "value": "a", "file": str(folder / "nats3.toml")}
