"""What `store create` says of a stream that an archive can hardly keep up with, or that is slow to read."""

import pytest

from nats3_dagster.archive.lifecycle.create import create, warning
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
