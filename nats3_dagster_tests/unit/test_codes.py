"""NATS' codes: which refusal passes, for a request, a message and a probe; and what an older server knows."""

from typing import Any

import pytest

from nats3_dagster.jetstream.codes import (
    message_passes,
    probe_passes,
    pull_request_ended,
    request_passes,
    supported_settings,
)


@pytest.mark.parametrize(
    ("error", "request_", "message", "probe"),
    [
        ({"code": 400, "err_code": 10005, "description": "no suitable peers for placement"}, True, False, False),
        ({"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}, True, True, True),
        ({"code": 500, "err_code": 10118, "description": "stream is offline"}, True, True, False),
        ({"code": 500, "err_code": 10119, "description": "consumer is offline"}, True, False, False),
        ({"code": 429, "err_code": 10167, "description": "too many requests"}, False, True, True),
        ({"code": 503, "description": "raft: not leader"}, False, True, True),
        ({"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}, False, False, True),
        ({"code": 404, "err_code": 10059, "description": "stream not found"}, False, False, False),
        ({"code": 400, "err_code": 10071, "description": "wrong last sequence: 7"}, False, False, False),
        ({}, False, False, False),
    ],
)
def test_what_passes(error: dict[str, Any], request_: bool, message: bool, probe: bool) -> None:
    assert request_passes(error.get("err_code", 0)) is request_
    assert message_passes(error) is message
    assert probe_passes(error) is probe


@pytest.mark.parametrize(
    ("status", "description", "ended"),
    [
        ("408", "Request Timeout", True),
        ("409", "Batch Completed", True),
        ("409", "Message Size Exceeds MaxBytes", True),
        ("409", "Consumer Deleted", False),
        ("409", "Server Shutdown", False),
        ("404", "No Messages", False),
    ],
)
def test_a_pull_request_that_ended_normally(status: str, description: str, ended: bool) -> None:
    assert pull_request_ended(status, description) is ended


def test_settings_that_an_older_server_does_not_know_are_left_out() -> None:
    config = {"name": "S", "subjects": ["s.>"], "compression": "s2", "allow_msg_ttl": True, "allow_batched": True}
    assert supported_settings(config, (2, 14, 0)) == config
    assert list(supported_settings(config, (2, 13, 9))) == ["name", "subjects", "compression", "allow_msg_ttl"]
    assert list(supported_settings(config, (2, 9, 25))) == ["name", "subjects"]
