"""One document for each noun: what `-o json` prints, by the catalog and by a server, is what HTTP answers."""

from typing import Any

from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.model import ReplaySpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.declared_exports import declared, export, seal
from nats3_dagster_tests.support.load_jobs import listening
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.wire import Wire

# The command that prints a document, and the request that answers with it. `{...}` are facts of the catalog.
SAME = {
    "archives": ("store list", "/store/jobs"),
    "archive": ("store get logs", "/archive/logs"),
    "archive by its job": ("store get {job}", "/archive/{job}"),
    "chunk": ("chunk get logs {chunk}", "/chunks/{chunk}"),
    "replays": ("load list", "/load/jobs"),
    "replay": ("load get {replay}", "/load/job?job_id={load}"),
    "progress": ("load progress {replay}", "/load/job/progress?job_id={load}"),
    "export": ("export get logs pizza", "/archive/logs/exports/pizza"),
    "table": ("table get logs", "/archive/logs/table"),
    "message": ("message get logs --seq 2", "/archive/logs/message?seq=2"),
    "next message": ("message next logs --subject ev.> --after 2", "/archive/logs/message/next?subject=ev.%3E&after=2"),
}
# Pages of HTTP have the list of the command under a key.
PAGES = {
    "chunks": ("chunk list logs", "/chunks?archive=logs"),
    "exports": ("export list logs", "/archive/logs/exports"),
}
# What `--server` asks a server for.
BY_SERVER = ("archives", "archive", "archive by its job", "replays", "replay", "progress", "message", "next message")
# They differ with the moment of the look.
MOMENTS = {"oldest_uncaptured_s", "seen_at"}


def test_a_document_of_a_command_is_that_of_http(
    nats3: Command, settings: Settings, workspace: Workspace, wire: Wire, bucket: str
) -> None:
    values = filled(workspace, wire, bucket)
    app = create_app(settings)
    with TestClient(app) as client:

        def differs(command: str, path: str, key: str | None = None, *words: str) -> Any:
            printed = nats3.ok(*command.format(**values).split(), *words, "-o", "json").json
            answered = client.get(path.format(**values)).json()
            return differences(printed, answered if key is None else answered[key])

        found = {noun: differs(*both) for noun, both in SAME.items()}
        found |= {noun: differs(*both, noun) for noun, both in PAGES.items()}
        with listening(create_app(settings)) as url:
            found |= {f"{noun} by --server": differs(*SAME[noun], None, "--server", url) for noun in BY_SERVER}
    assert {noun: faults for noun, faults in found.items() if faults} == {}


def filled(workspace: Workspace, wire: Wire, bucket: str) -> dict[str, str]:
    """An archive `logs` with a message that waits, an hour that is sealed and exported, a replay that has succeeded
    and one that waits, and a table."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    archived(workspace, wire, "EV", bucket, "logs")
    catalog = workspace.catalog
    archive = catalog.archives.get("logs")
    (chunk, *_) = catalog.chunks.select(archive)
    pizza = catalog.exports.create(archive, declared(subjects=(), schema="/schemas/pizza.json"))
    seal(catalog, archive, chunk.meta.hour)
    export(catalog, archive, pizza, chunk.meta.hour)
    catalog.tables.add(archive, "nats3", "nats3.logs")
    done = replayed(workspace, ReplaySpec("logs", "back.>"))
    wire.publish([("ev.b", b"", b"waits")])
    return {"job": str(archive.job_id), "chunk": str(chunk.id), "replay": done.id, "load": str(done.job_id)}


def differences(one: Any, other: Any) -> Any:
    """The keys of two documents whose values differ, or that one of them lacks."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [faults for faults in map(differences, one, other) if faults]
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return () if one == other else (one, other)
    keys = {key for key in one.keys() | other.keys() if one.get(key, KeyError) != other.get(key, KeyError)}
    return sorted(key for key in keys if key not in MOMENTS or key not in one or key not in other)
