"""`nats3 chunk compact`: what it says, what it does, and what it refuses."""

from nats3_dagster.archive.stored import folder
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.small_chunks import HOUR, bounds, messages, seal, small
from nats3_dagster_tests.support.stored import hour_key, made, store


def test_small_chunks_become_one(workspace: Workspace, bucket: str, nats3: Command) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive)
    for first in (31, 36):
        store(workspace, archive, 8, messages(first, first + 4))

    planned = nats3.ok("chunk", "compact", "logs", "--dry-run", "-o", "json")
    assert planned.json["dry_run"] is True
    assert (planned.json["looked_at"], planned.json["chunks_before"], planned.json["chunks_after"]) == (1, 6, 1)
    assert planned.json["hours"][0]["new_bytes"] is None
    assert "A dry run: nothing was merged" in planned.err
    assert len(bounds(workspace, archive)) == 8

    # The hour that is not sealed is left out, unless it is named: then it is an error.
    refused = nats3("chunk", "compact", "logs", "--hour", hour_key(8))
    assert refused.status == 2
    assert refused.error.startswith(f"Error: Hour {hour_key(8)} of archive logs is not sealed, or changed since")
    assert "nats3 store seal logs" in refused.error
    assert nats3.ok("chunk", "compact", "logs", "--due", "-o", "json").json["looked_at"] == 0

    ran = nats3.ok("chunk", "compact", "logs")
    assert f"{HOUR}: 6 chunks, 1 are left" in ran.err
    assert bounds(workspace, archive) == [(1, 30), (31, 35), (36, 40)]
    again = nats3.ok("chunk", "compact", "logs", "-o", "json").json
    assert (again["looked_at"], again["hours"]) == (0, [])
    verified = nats3.ok("chunk", "verify", "logs", "--hour", HOUR, "-o", "json").json
    assert (verified["chunks"], verified["messages"], verified["bad"]) == (1, 30, [])

    nats3.ok("store", "set", "logs", "--compact-after", "1s", "--compact-below", "1MiB")
    seal(workspace, archive, hour_key(8))
    due = nats3.ok("chunk", "compact", "logs", "--due", "-o", "json").json
    assert [(one["hour"], one["chunks_after"]) for one in due["hours"]] == [(hour_key(8), 1)]
    shown = nats3.ok("store", "get", "logs").out
    assert "compact after" in shown
    for words in (["--hour", HOUR, "--due"], ["--hour", "yesterday"]):
        assert nats3("chunk", "compact", "logs", *words).status == 2
