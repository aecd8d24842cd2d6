"""The page docs/migrate-from-nats3.md as tables, and what a client of nats-s3-connector does to servers of ours."""

import re
import tomllib
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.settings.names import unknown_variables, variables
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.load_jobs import Loads
from nats3_dagster_tests.support.metrics import Scraped, scraped

PAGE = Path(__file__).parents[3] / "docs" / "migrate-from-nats3.md"


def tables() -> dict[str, list[str]]:
    """The first cells of all rows, by the heading above them: without backticks, `\\|` as `|`."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith(("|---", "| nats-s3-connector ")):
            cell = re.split(r"(?<!\\)\|", line)[1]
            found.setdefault(heading, []).append(cell.strip().replace("`", "").replace("\\|", "|"))
    return found


class Side:
    """Servers of ours with an archive `events` of stream EV, and an empty stream `jobs` on `subject.>`."""

    def __init__(self, loads: Loads, client: TestClient, workspace: Workspace, nats3: Command, folder: Path) -> None:
        self.loads, self.client, self.workspace, self.nats3, self.folder = loads, client, workspace, nats3, folder
        self.wire, self.bucket = loads.wire, loads.bucket
        self._numbers = count(1)

    @property
    def name(self) -> str:
        """A name that nothing has yet."""
        return f"job-{next(self._numbers)}"

    def answer(self, method: str, path: str, status: int, **more: Any) -> Any:
        """The JSON of an answer of this status; None if it has no body."""
        got = self.client.request(method, path, **more)
        assert got.status_code == status, (method, path, got.status_code, got.text)
        return got.json() if got.content else None

    def store(self, **more: Any) -> dict[str, Any]:
        """A new store job; a field that is None is left out."""
        body = {"name": self.name, "stream": "jobs", "subject": "subject.1", "bucket": self.bucket, **more}
        return self.answer("POST", "/store/job", 201, json={k: v for k, v in body.items() if v is not None})

    def load(self, **more: Any) -> dict[str, Any]:
        """A new load job of its own target, that nothing drives before the gate is open."""
        self.loads.gate.clear()
        body = self.loads.body | {"write_subject": f"back.{self.name}"} | more
        return self.answer("POST", "/load/job", 201, json=body)

    def plan(self, **more: Any) -> dict[str, Any]:
        """What a load job would do."""
        return self.answer("POST", "/load/job", 200, json=self.loads.body | {"dry_run": True} | more)

    def refused(self, path: str, field: str, **body: Any) -> str:
        """The error of a body that is refused for this field."""
        answer = self.answer("POST", path, 422, json=body)
        assert field in str(answer), answer
        return answer["error"]

    def created(self, *words: str, stream: str = "jobs") -> dict[str, Any]:
        """`store create` with these words added."""
        given = ("--name", self.name, "--stream", stream, "--bucket", self.bucket, "--subject", "subject.1")
        kept = [word for at in range(0, len(given), 2) if given[at] not in words for word in given[at : at + 2]]
        return self.nats3.ok("store", "create", *kept, *words, "-o", "json").json

    def planned(self, *words: str) -> dict[str, Any]:
        """`load create --dry-run` with these words added."""
        given = ("--bucket", self.bucket, "--read-stream", "EV", "--read-subject", "ev.>", "--write-subject", "back.>")
        kept = [word for at in range(0, len(given), 2) if given[at] not in words for word in given[at : at + 2]]
        return self.nats3.ok("load", "create", *kept, *words, "--dry-run", "-o", "json").json

    def asks(self, *words: str) -> None:
        """A command that prompts says so where there is no terminal, and does nothing."""
        ran = self.nats3(*words)
        assert ran.status in (1, 2)
        assert "No such option" not in ran.err, ran.err

    def applied(self, **job: Any) -> dict[str, Any]:
        """The archive of a store job in a configuration file of nats-s3-connector."""
        job = {"name": self.name, "stream": "jobs", "subject": "subject.1", "bucket": self.bucket} | job
        lines = [f"{key} = {value!r}" for key, value in job.items()]
        path = self.folder / f"{job['name']}.toml"
        path.write_text("\n".join(["[nats]", 'url = "localhost:4222"', "[[store]]", *lines, ""]))
        tomllib.loads(path.read_text())
        ran = self.nats3.ok("store", "apply", "-f", str(path), "--yes")
        assert "left out nats, which set up nats-s3-connector itself" in ran.err
        return self.nats3.ok("store", "get", job["name"].replace("-", "_"), "-o", "json").json | {"notes": ran.err}

    def setting(self, key: str, value: str, *, variable: str = "") -> None:
        """The setting has this value where only the variable, or else only nats3.toml, has it."""
        file = self.folder / "own.toml"
        file.write_text("" if variable else f'{key} = "{value}"\n')
        with pytest.MonkeyPatch.context() as patch:
            for name in variables(key):
                patch.delenv(name, raising=False)
            patch.setenv("NATS3_CONFIG", str(file))
            if variable:
                patch.setenv(variable, value)
                assert variable not in unknown_variables()
            item = self.nats3.ok("config", "get", key.replace("_", "-"), "-o", "json").json
        assert item["value"] in (value, "***", value.replace("secret", "***")), item
        assert item["source"] == (f"environment variable {variable}" if variable else str(file)), item

    def renamed(self, variable: str, ours: str | None) -> None:
        """A variable that nothing reads: the warning names ours."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, "x")
            assert unknown_variables() == {variable: ours}
            shown = self.nats3("config", "show")
            assert shown.status == 0, shown
            assert ours or f"Warning: {variable} is not a setting" in shown.err

    @property
    def scraped(self) -> Scraped:
        return scraped(self.client)
