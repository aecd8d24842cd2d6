"""What `store create` says of a stream that an archive can hardly keep up with, or that is slow to read."""

import pytest

from nats3_dagster.archive.lifecycle.create import create, warning
from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire


@pytest.mark.parametrize(
    ("config", "max_age_s", "told"),
    [
        ({}, 30, []),
        ({"max_msgs": 50}, 30, ["by max_msgs at its rate of", "a max_age of 1 s"]),
        ({"max_age": 60 * 10**9}, 30, ["keeps a message for 60 s by max_age", "a max_age of 20 s"]),
        ({"max_age": 90 * 10**9}, 30, []),
        ({"max_age": 60 * 10**9}, 20, []),
        ({"max_consumers": 1}, 30, ["has all 1 consumers that it may have (max_consumers)"]),
        ({"max_consumers": 2}, 30, []),
    ],
)
def test_a_new_archive_is_told_what_its_stream_makes_of_it(
    workspace: Workspace, wire: Wire, bucket: str, config: dict[str, int], max_age_s: int, told: list[str]
) -> None:
    wire.create_stream("EV", "ev.>", **config)
    wire.publish(("ev.a", b"", b"%d" % n) for n in range(100))
    wire.api("CONSUMER.CREATE.EV.app", stream_name="EV", config={"name": "app", "durable_name": "app"})
    said = warning(workspace, create(workspace, ArchiveSpec("ev", "EV", bucket, max_age_s=max_age_s)))
    assert [text for text in told if text not in said] == []
    assert bool(said) == bool(told), said


@pytest.mark.skipif(version_of(find_nats_server()) >= (2, 10), reason="this server keeps metadata of streams")
def test_a_server_without_metadata_has_no_buffer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    with pytest.raises(OperatorError, match="keeps no metadata of streams"):
        create(workspace, ArchiveSpec("ev", "EV", bucket, buffer_s=3600))
    assert wire.api("STREAM.NAMES")["streams"] == ["EV"]
