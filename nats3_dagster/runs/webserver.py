"""The Dagster webserver that NATS3_DAGSTER_URL names, asked by GraphQL.

The queries are our own: dagster_graphql.DagsterGraphQLClient imports Dagster, which takes a second, and has no call for
the code locations that did not load.
"""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any

from nats3_dagster.direct_http import open_directly
from nats3_dagster.errors import DagsterError
from nats3_dagster.redaction import brief

# What a question to the webserver may end in.
FAILURES = (OSError, ValueError, LookupError, TypeError, HTTPException)
# A code server starts in 3 s; the webserver itself gives it 60 s.
TIMEOUT_S = 75
# The endings of the names of the two jobs that every load of nats3's definitions has, also without an archive
# (defs/jobs/jobs.py). In another project they have its prefix.
_OURS = ("replay", "checks")

# The error of a code location whose server does not answer, as Dagster 1.13 names it.
_UNREACHABLE = "DagsterUserCodeUnreachableError"

_LOCATIONS = """{ workspaceOrError { __typename ... on Workspace { locationEntries { name locationOrLoadError {
  __typename ... on RepositoryLocation { repositories { jobs { name } } } ... on PythonError { message stack }
} } } } }"""
_PLACES = """{ repositoriesOrError { __typename ... on RepositoryConnection { nodes {
  name location { name } jobs { name }
} } ... on PythonError { message } } }"""
_LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on RunConfigValidationInvalid { errors { message } }
  ... on Error { message }
} }"""
_RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) {
  __typename ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
  ... on PythonError { message } ... on ReloadNotSupported { message } ... on RepositoryLocationNotFound { message }
  ... on UnauthorizedError { message }
} }"""


def locations(url: str, timeout_s: float = TIMEOUT_S) -> Iterator[str]:
    """Names of the code locations with our definitions, loaded or not, and of those whose code server does not answer:
    they may have them. Raises one of FAILURES."""
    for entry in ask(url, _LOCATIONS, timeout_s=timeout_s)["workspaceOrError"]["locationEntries"]:
        location = entry["locationOrLoadError"] or {}
        jobs = [{job["name"] for job in repository["jobs"]} for repository in location.get("repositories", ())]
        failure = location.get("message", "") + "".join(location.get("stack", ()))
        if any(map(_is_ours, jobs)) or "nats3_dagster" in failure or _UNREACHABLE in failure:
            yield entry["name"]


def _is_ours(jobs: set[str]) -> bool:
    """True if both jobs of nats3 are there under one prefix."""
    replay, checks = ({job.removesuffix(end) for job in jobs if job.endswith(end)} for end in _OURS)
    return any(prefix == "" or prefix.endswith("_") for prefix in replay & checks)


def reload(url: str, name: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """Reload a code location: the reason why it was not loaded; None when it was. Raises one of FAILURES."""
    answer = ask(url, _RELOAD, timeout_s=timeout_s, name=name)["reloadRepositoryLocation"]
    if answer["__typename"] == "WorkspaceLocationEntry":
        answer = answer["locationOrLoadError"]
        if answer["__typename"] == "RepositoryLocation":
            return None
    return brief(answer.get("message") or answer["__typename"])


def place_of(url: str, job: str) -> tuple[str, str] | None:
    """Names of the code location and the repository that have this job, the first by name; None if none has it. Raises
    one of FAILURES."""
    answer = ask(url, _PLACES)["repositoriesOrError"]
    if answer["__typename"] != "RepositoryConnection":
        raise ValueError(brief(answer.get("message") or answer["__typename"]))
    places = [
        (node["location"]["name"], node["name"]) for node in answer["nodes"] if job in {j["name"] for j in node["jobs"]}
    ]
    return min(places, default=None)


def required_place(url: str, job: str) -> tuple[str, str]:
    """The place of a job (see place_of). Raises DagsterError where the webserver does not answer, or none has it."""
    try:
        place = place_of(url, job)
    except FAILURES as error:
        raise DagsterError(
            f"The Dagster at NATS3_DAGSTER_URL does not answer: {brief(error)}", "Start it, then try again"
        ) from error
    if place is None:
        raise DagsterError(
            f"The Dagster at NATS3_DAGSTER_URL has no job {job}",
            "Add nats3_dagster.definitions to its code locations, or look there why they did not load",
        )
    return place


def launch(
    url: str, place: tuple[str, str], job: str, config: Mapping[str, Any], tags: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """Launch a run of the job at a place: its id, or why it was refused; or why the webserver did not answer: the run
    may then have been launched."""
    try:
        return _launched(url, place, job, config, tags)
    except FAILURES as error:
        return None, brief(error)


def _launched(
    url: str, place: tuple[str, str], job: str, config: Mapping[str, Any], tags: Mapping[str, str]
) -> tuple[str | None, str | None]:
    selector = {"repositoryLocationName": place[0], "repositoryName": place[1], "jobName": job}
    params = {
        "selector": selector,
        "runConfigData": config,
        "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
    }
    answer = ask(url, _LAUNCH, params=params)["launchRun"]
    if answer["__typename"] == "LaunchRunSuccess":
        return answer["run"]["runId"], None
    errors = [error["message"] for error in answer.get("errors", ())]
    return None, brief(answer.get("message") or "; ".join(errors) or answer["__typename"])


def ask(url: str, query: str, *, timeout_s: float = TIMEOUT_S, **variables: Any) -> Any:
    """The answer's data. Raises OSError, ValueError or HTTPException."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(  # noqa: S310  `open_directly` checks it
        f"{url.rstrip('/')}/graphql", body, {"Content-Type": "application/json"}
    )
    with open_directly(request, timeout_s) as response:
        answer = json.load(response)
    if errors := answer.get("errors"):
        raise ValueError(errors[0].get("message", "GraphQL error"))
    return answer["data"]
