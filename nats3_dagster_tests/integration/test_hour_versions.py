"""The version of what an hour holds: it follows the messages and the losses, and nothing else."""

from dataclasses import replace

import pytest

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import folder
from nats3_dagster.model import Gap, Incarnation
from nats3_dagster_tests.support.catalog import HOUR, LOGS, chunk, ranges, spec, state


def held(*bounds, **fields):
    """Chunks of the hour with these bounds and a message for each sequence; all have the same times, so that any cut of
    the same messages has."""
    times = {"first_ns": 1_795_244_400_000_000_005, "last_ns": 1_795_244_400_000_000_900}
    # As a capture writes them: what lacks nothing says so.
    return [chunk(*bound, **times, **({"deleted": ()} if len(bound) < 3 else {}) | fields) for bound in bounds]


def gap(reason, *bounds):
    return Gap(LOGS, ranges(*bounds), reason)


# name: the ways to hold the same, each as (chunks, gaps).
CUTS = {
    "contiguous": [(held((1, 30)), []), (held((1, 10), (11, 30)), []), (held(*((n, n) for n in range(1, 31))), [])],
    "with deleted messages": [
        ([*held((1, 10, 8), deleted=ranges((3, 4)))], []),
        (held((1, 2), (5, 10)), [gap("deleted", (3, 4))]),
        (held((5, 10)) + held((1, 4, 2), deleted=ranges((3, 4))), []),
    ],
    "with messages that were not selected": [
        (held((1, 30, 20)), []),
        (held((1, 10), (21, 30)), [gap("unselected", (11, 20))]),
        (held((1, 15, 10), (16, 30, 10)), []),
    ],
    "with losses": [
        (held((1, 10, 8), deleted=ranges((3, 4)), absent_reason="expired"), []),
        (held((1, 2), (5, 10)), [gap("expired", (3, 4))]),
    ],
    "nothing": [([], []), ([], [gap("deleted", (1, 9))]), ([], [gap("unselected", (1, 9))])],
}


def test_however_the_messages_are_cut_into_chunks(workspace, bucket):
    catalog, seen = workspace.catalog, {}
    for case, ways in CUTS.items():
        for number, (chunks, gaps) in enumerate(ways):
            name = f"{case.replace(' ', '_')}_{number}"
            archive = catalog.archives.create(spec(name, bucket=bucket), state(last=1))
            named = [replace(c, archive=name, key=f"{name}/{c.key}", bucket=bucket) for c in chunks]
            catalog.chunks.commit(archive, named, gaps)
            seen.setdefault(case, []).append(contents(workspace, archive, [HOUR])[HOUR])
    assert {case: len(set(versions)) for case, versions in seen.items()} == dict.fromkeys(CUTS, 1), seen
    # And no two of these hours are the same.
    assert len({versions[0] for versions in seen.values()}) == len(CUTS)


@pytest.fixture
def logs(workspace, bucket):
    created = workspace.catalog.archives.create(spec(bucket=bucket), state(last=1))
    folder.claim(workspace, created)
    return created


def test_what_changes_the_version_and_what_does_not(workspace, logs):
    catalog = workspace.catalog

    def now():
        return contents(workspace, logs, [HOUR])[HOUR]

    def recut(*bounds, **fields):
        """Write the live chunks of the hour once more, as a compaction or a repair does."""
        live = [one.id for one in catalog.chunks.of_hour(logs, HOUR)]
        catalog.chunks.retire(logs, live, recapture=True)
        catalog.chunks.commit(logs, held(*bounds, **fields))

    versions = [empty := now()]
    again = Incarnation("LOGS", LOGS.created_ns + 5)
    # name: (what happens, whether the version changes)
    steps = {
        "messages": (lambda: catalog.chunks.commit(logs, held((1, 10), (11, 20))), True),
        "other chunks of the same messages": (lambda: recut((1, 20)), False),
        "other bytes": (lambda: recut((1, 20), stored_bytes=7, sha256="0" * 64, minutes=None), False),
        "what was deleted after them": (lambda: catalog.chunks.commit(logs, [], [gap("deleted", (21, 24))]), False),
        "a loss": (lambda: catalog.chunks.commit(logs, [], [gap("expired", (25, 26))]), True),
        "a later message": (lambda: catalog.chunks.commit(logs, held((27, 27))), True),
        "a message that was lost": (lambda: catalog.chunks.commit(logs, held((25, 25))), True),
        "another payload of one": (lambda: recut((1, 20), (25, 25), (27, 27), payload_bytes=700), True),
        "one message less": (
            lambda: recut((1, 20, 19), (25, 25, 1), (27, 27, 1)),
            True,
        ),
        "another stream": (lambda: catalog.coverage.begin(logs, state(again)), False),
        "its messages": (lambda: catalog.chunks.commit(logs, held((1, 2), incarnation=again)), True),
        "chunks taken out": (
            lambda: catalog.chunks.retire(logs, [c.id for c in catalog.chunks.of_hour(logs, HOUR)]),
            True,
        ),
    }
    changed = {}
    for name, (happens, _) in steps.items():
        happens()
        versions.append(now())
        changed[name] = versions[-1] != versions[-2]
    assert changed == {name: changes for name, (_, changes) in steps.items()}
    # An hour whose messages were taken out is not one that never had any.
    assert versions[-1] != empty


def test_a_seal_has_the_version_of_its_hour(workspace, logs, s3):
    catalog = workspace.catalog
    catalog.chunks.commit(logs, held((1, 10), (11, 20)))
    (first,) = seal_hours(workspace, logs, [HOUR])
    assert first.content == contents(workspace, logs, [HOUR])[HOUR]
    catalog.chunks.retire(logs, [one.id for one in catalog.chunks.of_hour(logs, HOUR)], recapture=True)
    catalog.chunks.commit(logs, held((1, 20)))
    (second,) = seal_hours(workspace, logs, [HOUR])
    assert (second.number, second.content) == (2, first.content)
    assert second.sha256 != first.sha256
    assert [one.content for one in catalog.seals.select(logs)] == [first.content]
