"""Reloading the code location of a running Dagster when an archive is created or deleted.

The command has done its work by then and succeeds, whether Dagster answers or not; the sentence says what is left to
do.

What a reload does (Dagster 1.13): the webserver asks the code server (`dagster code-server start`, which `dagster dev`
uses too) to start its code again. The daemon asks that server once a second who it is, and loads the definitions when
the answer changed. Where webserver and daemon load the module each by itself (`python_module` in workspace.yaml) a
reload reaches the webserver only; the daemon reloads all its locations every 60 s.

The two GraphQL queries are our own: dagster_graphql.DagsterGraphQLClient imports Dagster, which takes a second, and has
no call for the code locations that did not load.
"""

import json
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

from nats3_dagster.settings import Settings

# A code server starts in 3 s; the webserver itself gives it 60 s.
TIMEOUT_S = 75
BY_HAND = "reload the code location in the Dagster UI (Deployment, Reload)"
# Jobs that every load of ours defines, also without an archive (defs/jobs.py).
_OURS = {"replay", "checks"}

_LOCATIONS = """{ workspaceOrError { __typename ... on Workspace { locationEntries { name locationOrLoadError {
  __typename ... on RepositoryLocation { repositories { jobs { name } } } ... on PythonError { message stack }
} } } } }"""
_RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) {
  __typename ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
  ... on PythonError { message } ... on ReloadNotSupported { message } ... on RepositoryLocationNotFound { message }
  ... on UnauthorizedError { message }
} }"""


def reload_dagster(settings: Settings) -> str:
    """Have the webserver that NATS3_DAGSTER_URL names load each of our code locations; a sentence about the outcome."""
    if not settings.dagster_url:
        return f"If Dagster runs, {BY_HAND}; with NATS3_DAGSTER_URL set, this command does it"
    try:
        names = list(_locations(settings.dagster_url))
        if not names:
            return "The Dagster at NATS3_DAGSTER_URL has no code location of nats3: add nats3_dagster.definitions to it"
        refused = [f"{name}: {why}" for name in names if (why := _reload(settings.dagster_url, name))]
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        return f"The Dagster at NATS3_DAGSTER_URL did not reload ({_brief(error)}); {BY_HAND}"
    if refused:
        return f"Dagster did not load {'; '.join(refused)}; {BY_HAND}"
    return f"Dagster reloaded {', '.join(names)}; its daemon follows within a minute"


def _locations(url: str) -> Iterator[str]:
    """Names of the code locations with our definitions, loaded or not."""
    for entry in _ask(url, _LOCATIONS)["workspaceOrError"]["locationEntries"]:
        location = entry["locationOrLoadError"] or {}
        jobs = [{job["name"] for job in repository["jobs"]} for repository in location.get("repositories", ())]
        failure = location.get("message", "") + "".join(location.get("stack", ()))
        if any(names >= _OURS for names in jobs) or "nats3_dagster" in failure:
            yield entry["name"]


def _reload(url: str, name: str) -> str | None:
    """Why it was not loaded; None when it was."""
    answer = _ask(url, _RELOAD, name=name)["reloadRepositoryLocation"]
    if answer["__typename"] == "WorkspaceLocationEntry":
        answer = answer["locationOrLoadError"]
        if answer["__typename"] == "RepositoryLocation":
            return None
    return _brief(answer.get("message") or answer["__typename"])


def _ask(url: str, query: str, **variables: str) -> Any:
    """The answer's data. Raises OSError, ValueError or HTTPException."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("not an http:// or https:// address")
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(  # noqa: S310  checked above
        f"{url.rstrip('/')}/graphql", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
        answer = json.load(response)
    if errors := answer.get("errors"):
        raise ValueError(errors[0].get("message", "GraphQL error"))
    return answer["data"]


def _brief(what: object) -> str:
    """The first line: a text of many would hide what follows it."""
    lines = str(what).strip().splitlines()
    return lines[0][:200] if lines else type(what).__name__
