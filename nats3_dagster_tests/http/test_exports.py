"""Exports by the API: what is declared, and which hours are done and due."""

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.documents.exports import ExportDetail, ExportList
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, chunk, spec, state
from nats3_dagster_tests.support.declared_exports import NEXT, declared, export, seal


@pytest.fixture
def exports(workspace: Workspace) -> None:
    """An archive with two sealed hours and two exports; `pizza` has exported one of the hours, and failed at the
    other."""
    catalog = workspace.catalog
    archive = catalog.archives.create(spec(), state(last=10_000))
    begins = HOUR_NS + 3600 * 10**9
    catalog.chunks.commit(archive, [chunk(1, 10), chunk(11, 20, hour=NEXT, first_ns=begins, last_ns=begins + 9)])
    pizza = catalog.exports.create(archive, declared(schema="/schemas/pizza.json"))
    lines = declared("raw_lines", destination="s3://lake/raw", decode="raw", format="ndjson", columns=())
    catalog.exports.create(archive, lines)
    seal(catalog, archive)
    seal(catalog, archive, NEXT)
    export(catalog, archive, pizza)
    catalog.exports.record_failure(archive, pizza, NEXT, "source", "it broke")


def test_exports_of_an_archive_with_their_state(client: TestClient, exports: None) -> None:
    document = client.get("/archive/logs/exports").json()
    ExportList.model_validate(document)
    pizza, lines = document["exports"]
    assert (pizza["name"], pizza["schema"], pizza["files"], pizza["messages"]) == (
        "pizza",
        "/schemas/pizza.json",
        2,
        10,
    )
    assert (pizza["hours_done"], pizza["hours_due"], pizza["hours_failed"], pizza["undecoded"]) == (1, 0, 1, 1)
    assert pizza["last_run_at"] > pizza["created_at"]
    assert (lines["name"], lines["hours_due"], lines["last_run_at"]) == ("raw_lines", 2, None)
    assert client.get("/api/v1/archive/logs/exports").json() == document


def test_one_export_and_its_hours(client: TestClient, exports: None) -> None:
    document = client.get("/archive/logs/exports/pizza").json()
    ExportDetail.model_validate(document)
    assert [(hour["hour"], hour["state"], hour["error"]) for hour in document["hours"]] == [
        (HOUR, "done", None),
        (NEXT, "failed", "it broke"),
    ]
    assert document["hours"][0]["manifest"] == "s3://lake/m.json"
    (listed,) = [one for one in client.get("/archive/logs/exports").json()["exports"] if one["name"] == "pizza"]
    assert {field: value for field, value in document.items() if field != "hours"} == listed
    for newest, hours in ((1, [NEXT]), (0, []), (10_000, [HOUR, NEXT])):
        found = client.get("/archive/logs/exports/pizza", params={"hours": newest}).json()
        assert ([hour["hour"] for hour in found["hours"]], found["hours_done"]) == (hours, 1)


def test_what_is_not_there(client: TestClient, exports: None) -> None:
    for path, error in (
        ("/archive/log/exports", "There is no archive log"),
        ("/archive/logs/exports/pizzas", "Archive logs has no export pizzas"),
        ("/archive/log/exports/pizza", "There is no archive log"),
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]) == (404, error)
    assert client.get("/archive/logs/exports/pizza", params={"hours": -1}).status_code == 422
