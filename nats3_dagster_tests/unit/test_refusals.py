"""What a stream's no to a message means: to be asked again, or the end of the replay."""

from typing import Any

import pytest

from nats3_dagster.errors import Interrupted, TargetError
from nats3_dagster.jetstream.publish.acks import Answer, refusal


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        ({"code": 503, "description": "raft: not leader"}, True),
        ({"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}, True),
        ({"code": 429, "err_code": 10167, "description": "too many requests"}, True),
        ({"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}, False),
        ({"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}, False),
    ],
)
def test_a_refusal(error: dict[str, Any], passing: bool) -> None:
    said = refusal(Answer("1", "", {"stream": "S", "error": error}), "s.a")
    assert isinstance(said, TargetError)
    assert isinstance(said, Interrupted) is passing
    assert f"S refused a message on s.a: {error['description']}" in str(said)
