"""Names of jobs: clients of the HTTP API name archives as they like, and each archive has a name of its own.

Invariant: two names of clients are two archives. A job does not get the name that the archive of another job had
before either: asset keys and object keys begin with it, and what that one left in the bucket stays apart.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.archive_spec import MAX_NAME
from nats3_dagster.plausible import check_field
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Room for the number of an archive whose name another job had first.
_MAX_JOB_NAME = MAX_NAME - 10


def archive_name(job_name: str) -> str:
    """The name of the job's archive, if no other job had it: what is no letter, digit or _ becomes _. Raises
    OperatorError if no job can have this name."""
    check_field("name", job_name)
    if not job_name or not job_name.isprintable() or job_name != job_name.strip():
        raise OperatorError(
            f"{job_name[:40]!r} is not a name",
            "Use letters, digits, - and _; it cannot be empty, nor begin or end with a blank",
            field="name",
        )
    if len(job_name) > _MAX_JOB_NAME:
        raise OperatorError(
            f"{job_name[:30]!r}... is not a name", f"Use at most {_MAX_JOB_NAME} characters", field="name"
        )
    return re.sub(r"[^A-Za-z0-9_]", "_", job_name)


@contextmanager
def naming(workspace: Workspace, spec: ArchiveSpec, job_name: str | None, patience_s: float) -> Generator[ArchiveSpec]:
    """Yields the archive with a name that no other process can take meanwhile: its own; or with a `job_name` the first
    one free of name, name_2, name_3 and so on. Raises Conflict when the job, or without one the archive's name, is
    there already, or another process creates it for longer than `patience_s`."""
    base, number = spec.name, 1
    with workspace.catalog.locks.creating(base, patience_s):
        while not _is_free(workspace, spec.name, job_name):
            number += 1
            spec = replace(spec, name=f"{base}_{number}")
        if spec.name == base:
            yield spec
            return
        # A job of exactly this name is created under another lock.
        with workspace.catalog.locks.creating(spec.name, patience_s):
            if not _is_free(workspace, spec.name, job_name):
                raise Conflict(f"Another process has just created archive {spec.name}", "Create it again")
            yield spec


def _is_free(workspace: Workspace, name: str, job_name: str | None) -> bool:
    """True if the job can have this archive name. Raises Conflict when it has it already, or when there is no other
    name to try."""
    jobs = workspace.catalog.archives.jobs_of_name(name)
    live = next((job.job_name for job in jobs if job.live), None)
    if live == (job_name or name):
        raise Conflict(f"There is an archive {live} already", Next.NAME_TAKEN(archive=live))
    if live and job_name is None:
        raise Conflict(f"There is an archive {name} already: that of job {live}", Next.NAME_TAKEN(archive=name))
    return live is None and (job_name is None or all(job.job_name == job_name for job in jobs))
