"""Paths of the files of an export."""

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.job import ExportJob, Group
from nats3_dagster.path_part import path_part

# As in the names of chunks: so names sort as sequences do.
_DIGITS = 20
_MAX_PATH, _MAX_PART = 800, 255


def file_path(job: ExportJob, group: Group, key: str, slot: int, first: int, last: int) -> str:
    """Returns the path of a file, below the place; `key` is escaped, and `slot` counts the hour's intervals.

    Raises OperatorError where the store cannot have such a path."""
    path = job.spec.path.format(
        archive=job.archive,
        export=job.spec.name,
        stream=path_part(job.stream),
        key=key,
        date=job.hour[:10],
        hour=job.hour[11:13],
        minute=f"{slot * job.spec.interval_minutes:02d}",
        first=f"{group.mark}{first:0{_DIGITS}d}",
        last=f"{group.mark}{last:0{_DIGITS}d}",
        part=f"{group.number:05d}",
        ext=job.spec.ext,
    )
    if len(path) > _MAX_PATH or any(len(part.encode()) > _MAX_PART for part in path.split("/")):
        raise OperatorError(
            f"The path {path[:80]!r}... has more than {_MAX_PATH} characters, or {_MAX_PART} bytes in a part",
            "Shorten the export's path",
            field="path",
        )
    folder = job.spec.folder(job.archive, job.stream)
    return path.removeprefix(f"{folder}/") if folder else path


def hour_name(hour: str) -> str:
    """The hour as a part of a path: 2026-11-22-14."""
    return hour[:13]
