"""The configuration of a restored stream: what would remove its messages, or bring them twice, is not in it."""

from typing import Any

import pytest

from nats3_dagster.archive.restore.configuration import restored_configuration, unfinished
from nats3_dagster.jetstream.server import ServerInfo
from nats3_dagster.model.stream import is_unfinished

ALONE = ServerInfo((2, 15, 1), "id", "host:4222", 1 << 20, True)
CLUSTER = ServerInfo((2, 15, 1), "id", "host:4222", 1 << 20, True, clustered=True)


@pytest.mark.parametrize(
    ("source", "has", "left_out"),
    [
        ({"retention": "interest"}, {"retention": "limits"}, ("retention",)),
        ({"retention": "workqueue"}, {"retention": "workqueue"}, ()),
        ({"max_age": 5, "max_msgs": 6, "max_bytes": -1}, {"max_age": 0, "max_msgs": -1}, ("max_age", "max_msgs")),
        ({"subjects": ["$KV.b.>"], "max_msgs_per_subject": 4}, {"max_msgs_per_subject": 4}, ()),
        ({"subjects": ["ev.>"], "max_msgs_per_subject": 4}, {"max_msgs_per_subject": -1}, ("max_msgs_per_subject",)),
        ({"max_msg_size": 9}, {"max_msg_size": -1}, ("max_msg_size",)),
        ({"max_msg_size": 10}, {"max_msg_size": 10}, ()),
        ({"mirror": {"name": "A"}, "mirror_direct": True}, {}, ("mirror", "mirror_direct")),
        ({"sources": [{"name": "A"}], "placement": {"cluster": "c"}}, {}, ("placement", "sources")),
        ({"metadata": {"a": "b", "_nats.ver": "2"}}, {"metadata": {"a": "b"}}, ()),
    ],
)
def test_what_a_stream_has_again(source: dict[str, Any], has: dict[str, Any], left_out: tuple[str, ...]) -> None:
    config, named = restored_configuration(
        {"name": "EV", **source}, ALONE, "EV", largest_bytes=10, replicas=None, storage=None, limits=False
    )
    assert {key: config.get(key) for key in has} == has
    assert named == left_out
    assert not {"mirror", "sources", "placement"} & set(config)


@pytest.mark.parametrize(
    ("server", "had", "asked", "gets", "named"),
    [(ALONE, 3, None, 1, True), (CLUSTER, 3, None, 3, False), (CLUSTER, 3, 5, 5, False), (ALONE, 1, None, 1, False)],
)
def test_replicas(server: ServerInfo, had: int, asked: int | None, gets: int, named: bool) -> None:
    config, left_out = restored_configuration(
        {"name": "EV", "num_replicas": had}, server, "EV", largest_bytes=0, replicas=asked, storage=None, limits=True
    )
    assert (config["num_replicas"], "num_replicas" in left_out) == (gets, named)


def test_with_its_limits_it_has_them() -> None:
    source = {"name": "EV", "max_age": 5, "max_msgs": 6, "max_msgs_per_subject": 1}
    config, left_out = restored_configuration(
        source, ALONE, "OTHER", largest_bytes=0, replicas=None, storage="memory", limits=True
    )
    assert config == {**source, "name": "OTHER", "storage": "memory", "num_replicas": 1, "metadata": {}}
    assert left_out == ()


def test_until_it_is_whole_it_takes_nothing_of_others() -> None:
    config = {"name": "EV", "subjects": ["ev.>"], "metadata": {"a": "b"}}
    assert unfinished(config)["subjects"] == ["nats3.restoring.EV"]
    assert (is_unfinished(config), is_unfinished(unfinished(config))) == (False, True)
    assert config == {"name": "EV", "subjects": ["ev.>"], "metadata": {"a": "b"}}
