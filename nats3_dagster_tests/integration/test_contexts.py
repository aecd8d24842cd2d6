"""Logins by contexts of the `nats` command, in each form that it writes and reads, at servers of each kind of login.

The files are as `nats context save` of natscli 0.5 writes them, with and without --embed.
"""

import base64
import json
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nkeys
import pytest

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_names
from nats3_dagster.pipeline.sources.connection import nats_options
from nats3_dagster.settings import Settings
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.servers.logins import SECRET, Authority, name_of, operator_mode, seed, tls_config

# All fields, as the command writes those that are not set.
EMPTY: dict[str, Any] = {
    "description": "",
    "url": "",
    "socks_proxy": "",
    "token": "",
    "user": "",
    "password": "",
    "creds": "",
    "nkey": "",
    "cert": "",
    "key": "",
    "ca": "",
    "nsc": "",
    "jetstream_domain": "",
    "jetstream_api_prefix": "",
    "jetstream_event_prefix": "",
    "inbox_prefix": "",
    "user_jwt": "",
    "user_seed": "",
    "color_scheme": "",
    "tls_first": False,
    "windows_cert_store": "",
    "windows_cert_match_by": "",
    "windows_cert_match": "",
    "windows_ca_certs_match": None,
}


@dataclass(frozen=True)
class Kind:
    """A server of one kind of login, and what logs in there."""

    config: str
    # Fields that are as they are, and those that are references: their contents.
    plain: Mapping[str, Any]
    contents: Mapping[str, str]
    # Whether the references are files, and not texts.
    are_files: bool = True
    # Where the command follows no env:// and data:, and a file may hold more than the seed.
    decorated: str = ""


def by_user(folder: Path) -> Kind:
    config = f'authorization {{user: "u s", password: "{SECRET}"}}'
    return Kind(config, {"user": "u s"}, {"password": SECRET}, are_files=False)


def by_token(folder: Path) -> Kind:
    return Kind(f'authorization {{token: "{SECRET}"}}', {}, {"token": SECRET}, are_files=False)


def by_nkey(folder: Path) -> Kind:
    ours = bytes(seed()).decode()
    public = name_of(nkeys.from_seed(bytearray(ours.encode())))
    decorated = f"-----BEGIN USER NKEY SEED-----\r\n{ours}\r\n------END USER NKEY SEED------\r\n"
    return Kind(f"authorization {{users: [{{nkey: {public}}}]}}", {}, {"nkey": ours}, decorated=decorated)


def by_creds(folder: Path) -> Kind:
    config, creds = operator_mode()
    return Kind(config, {}, {"creds": creds}, decorated=creds.replace("\n", "\r\n"))


def by_jwt(folder: Path) -> Kind:
    config, creds = operator_mode()
    lines = creds.splitlines()
    return Kind(config, {}, {"user_jwt": lines[1], "user_seed": lines[5]}, are_files=False)


def by_authority(folder: Path) -> Kind:
    authority = Authority(folder)
    return Kind(tls_config(authority), {}, {"ca": Path(authority.file).read_text()})


def by_certificate(folder: Path) -> Kind:
    authority = Authority(folder)
    cert, key = authority.issue("client")
    users = 'authorization {users: [{user: "CN=client"}]}'
    return Kind(
        f"{tls_config(authority, 'verify_and_map: true')}\n{users}",
        {"ca": authority.file},
        {"cert": Path(cert).read_text(), "key": Path(key).read_text()},
    )


def by_tls_first(folder: Path) -> Kind:
    authority = Authority(folder)
    config = tls_config(authority, "handshake_first: true")
    return Kind(config, {"tls_first": True}, {"ca": Path(authority.file).read_text()})


KINDS = [
    by_user,
    by_token,
    by_nkey,
    by_creds,
    by_jwt,
    by_authority,
    by_certificate,
    pytest.param(by_tls_first, marks=pytest.mark.needs_nats("2.10.4")),
]


def data(content: str) -> str:
    return "data:;base64," + base64.b64encode(content.encode()).decode()


def forms(kind: Kind, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each form of the references, by its name: a context's fields."""
    for field, content in kind.contents.items():
        (folder / f"our {field}").write_text(f"{content}\n" if "\n" not in content else content)
        os.environ[f"OUR_{field.upper()}"] = content
    fields = list(kind.contents)
    yield "data", {field: data(kind.contents[field] + "\n") for field in fields}
    yield "data with a type", {field: data(kind.contents[field]).replace(":", ":text/plain") for field in fields}
    yield "env", {field: f"env://OUR_{field.upper()}" for field in fields}
    yield "file", {field: f"file://{folder}/our {field}" for field in fields}
    yield "file of the home folder", {field: f"FILE://~/our {field}" for field in fields}
    if kind.are_files:
        yield "path", {field: f"{folder}/our {field}" for field in fields}
        yield "path of the home folder", {field: f"~/our {field}" for field in fields}
        yield "path by a variable", {field: f"${{FOLDER_OF_KEYS}}/our {field}" for field in fields}
    else:
        yield "text", dict(kind.contents)
    if kind.decorated:
        (folder / "decorated").write_bytes(kind.decorated.encode())
        yield "decorated", {fields[0]: data(kind.decorated)}
        if fields == ["nkey"]:  # nats-py reads no creds file of another system's line ends
            yield "decorated file", {fields[0]: str(folder / "decorated")}
    if fields[0] == "user_jwt":
        yield "paths of a JWT", {field: f"~/our {field}" for field in fields}


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Any]], None]:
    """Writes the context that the settings name."""
    for name, value in (
        ("XDG_CONFIG_HOME", str(tmp_path)),
        ("HOME", str(tmp_path)),
        ("FOLDER_OF_KEYS", str(tmp_path)),
        ("NATS3_NATS_CONTEXT", "ours"),
    ):
        monkeypatch.setenv(name, value)
    for field in ("password", "token", "nkey", "creds", "user_jwt", "user_seed", "ca", "cert", "key"):
        monkeypatch.setenv(f"OUR_{field.upper()}", "")
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)

    def write(fields: Mapping[str, Any]) -> None:
        (folder / "ours.json").write_text(json.dumps({**EMPTY, **fields}, indent=2))

    return write


@pytest.mark.parametrize("kind_of", KINDS)
def test_every_form_of_a_context_logs_in(
    kind_of: Callable[[Path], Kind],
    nats_factory: NatsFactory,
    tmp_path: Path,
    save: Callable[[Mapping[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = kind_of(tmp_path)
    server = nats_factory(config=kind.config)
    for name, references in forms(kind, tmp_path):
        save({"url": server.url, **kind.plain, **references})
        settings = Settings.load()
        of_source = nats_options("jetstream", {"context": "ours"})
        with monkeypatch.context() as patch:
            # As in a worker of Spark, which has another environment.
            for field in kind.contents:
                patch.delenv(f"OUR_{field.upper()}")
            with Link(pickle.loads(pickle.dumps(settings.nats))) as link:
                assert stream_names(link) == [], name
        assert of_source == settings.nats, name
        shown = f"{settings!r} {settings.nats!r} {of_source} {[settings.shown(key) for key in Settings.model_fields]}"
        for content in (*kind.contents.values(), *references.values()):
            whole = content if content.startswith(("data:", "-----")) or not kind.are_files else None
            assert not whole or whole[:40] not in shown, name
            assert base64.b64encode(content.encode()).decode()[:40] not in shown
    save({"url": server.url})
    with pytest.raises(SourceError) as caught, Link(replace(Settings.load().nats, connect_timeout_s=0.5)):
        pass
    assert SECRET not in str(caught.value)


def test_what_is_embedded_is_in_no_output(
    nats_factory: NatsFactory, tmp_path: Path, save: Callable[[Mapping[str, Any]], None], nats3: Command
) -> None:
    """Also where it is wrong: the seed of another user, and what is no seed at all."""
    kind = by_nkey(tmp_path)
    server = nats_factory(config=kind.config)
    ours, other = kind.contents["nkey"], bytes(seed()).decode()
    for content in (ours, other, f"no seed at all: {SECRET}", f"SUA{SECRET}"):
        for field in ("nkey", "creds", "ca"):
            save({"url": server.url, field: data(content)})
            reported = nats3("doctor", "--debug")
            shown = nats3.ok("config", "show")
            listed = nats3("stream", "list", "--debug")
            said = reported.out + reported.err + shown.out + shown.err + listed.out + listed.err
            assert "embedded data" in shown.out
            for secret in (content, SECRET, data(content)[20:50], content[:20]):
                assert secret not in said, (field, secret)
            if field == "nkey":
                assert (listed.status == 0) == (content == ours), listed


def test_a_file_of_a_login_that_others_can_read_is_named(
    tmp_path: Path, save: Callable[[Mapping[str, Any]], None], nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by its group: doctor looks at each file with a secret that a setting or a context names."""
    monkeypatch.chdir(tmp_path)
    files = {name: tmp_path / name for name in ("creds", "nkey", "key", "password", "api", "nats3.toml")}
    for file in files.values():
        file.write_text("x")
    files["nats3.toml"].write_text('s3_secret_access_key = "x"\ns3_access_key_id = "k"\n')
    monkeypatch.setenv("NATS3_SERVER_TOKEN_FILE", str(files["password"]))
    monkeypatch.setenv("NATS3_API_TLS_KEY", str(files["api"]))
    monkeypatch.setenv("NATS3_NATS_NKEY", str(files["nkey"]))
    context = tmp_path / "nats" / "context" / "ours.json"
    save({"url": "nats://127.0.0.1:1", "password": "x", "cert": str(files["key"]), "key": str(files["key"])})
    every = {*files.values(), context} - {files["creds"]}

    def named(who: str) -> set[Path]:
        report = nats3("doctor", "-o", "json").json
        return {Path(f["what"].split(" can read ")[1].split(", which")[0]) for f in report if f["what"].startswith(who)}

    for mode, who in ((0o640, "Every user of its group"), (0o604, "Every user of this machine")):
        for file in every:
            file.chmod(mode)
        assert named(who) == every
    for file in every:
        file.chmod(0o600)
    assert named("Every user") == set()
    monkeypatch.delenv("NATS3_NATS_NKEY")
    save({"url": "nats://127.0.0.1:1", "creds": str(files["creds"])})
    files["creds"].chmod(0o640)
    context.chmod(0o644)  # it holds no secret
    assert named("Every user") == {files["creds"]}
