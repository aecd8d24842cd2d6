"""Restores of streams: a run of Dagster where there is a webserver, else a process of its own."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import DagsterError
from nats3_dagster.runs import webserver
from nats3_dagster.runs.processes import start_detached
from nats3_dagster.settings import Settings, home

# defs/jobs/restores.py.
JOB, OP = "restore_stream", "restore_archived_stream"
# Options of the command, by the fields of the body: with a value, repeated, or alone.
_OPTIONS: Mapping[str, str] = {
    "name": "--name",
    "from_time": "--from-time",
    "to_time": "--to-time",
    "subjects": "--subject",
    "replicas": "--replicas",
    "storage": "--storage",
    "limits": "--limits",
    "over_gaps": "--over-gaps",
    "consumers": "--consumers",
    "incarnation": "--incarnation",
}


@dataclass(frozen=True, slots=True)
class Started:
    """A restore that was started."""

    # The run of Dagster; None for a process.
    run_id: str | None = None
    # The file to which the process writes, on its machine; None for a run.
    log: str | None = None


def start(settings: Settings, config: Mapping[str, Any], stream: str) -> Started:
    """Have the stream restored. `config`: the fields of the body that were given; `stream`: its name. Raises
    DagsterError when the webserver does not answer, has no such job or refuses the run: nothing was started then,
    unless the answer was lost."""
    if not settings.dagster_url:
        log = home() / "logs" / f"restore-{stream}-{secrets.token_hex(4)}.log"
        start_detached(command(config), log)
        return Started(log=str(log))
    url = settings.dagster_url
    place = webserver.required_place(url, JOB)
    tags = {"nats3/archive": config["archive"], "nats3/restored": stream}
    run_id, refused = webserver.launch(url, place, JOB, {"ops": {OP: {"config": config}}}, tags)
    if refused:
        raise DagsterError(
            f"The Dagster at NATS3_DAGSTER_URL did not start the restore: {refused}", "Look at its runs, then try again"
        )
    return Started(run_id)


def command(config: Mapping[str, Any]) -> list[str]:
    """The words of `nats3` that restore the stream."""
    words = ["stream", "restore", config["archive"]]
    for field, option in _OPTIONS.items():
        value = config.get(field)
        if value is True:
            words.append(option)
        elif value is not None:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (option, str(one))]
    if sequences := config.get("sequences"):
        words += ["--sequences", f"{sequences[0]}-{sequences[1]}"]
    return words if config.get("verify", True) else [*words, "--no-verify"]
