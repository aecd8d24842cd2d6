"""Whether the server answers, and how it answers what it does not know."""

from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.settings import Settings


def test_a_ping_under_both_prefixes(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        assert [client.get(f"{prefix}/ping").text for prefix in ("", "/api/v1")] == ["pong", "pong"]


def test_an_unknown_route_is_a_problem(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        answer = client.get("/nowhere")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["error"] == "There is no route /nowhere"
