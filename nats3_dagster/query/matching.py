"""Matching: the sequences of the messages that conditions choose, of each incarnation of an archive.

Invariant: every condition narrows. A text of another person is one expression beside the others, and what it chooses is
within the selection.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.model import Archive, Incarnation, Selection, SeqRange
from nats3_dagster.query import process
from nats3_dagster.query.limits import Limits
from nats3_dagster.query.wire import Request
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# Ranges of adjacent sequences that are taken into memory.
MOST_RANGES: Final = 1_000_000
# Runs of adjacent sequences: within one, sequence and row number grow together.
_STATEMENT: Final = """
SELECT incarnation, min(seq), max(seq) FROM (
    SELECT incarnation, seq, seq - row_number() OVER (PARTITION BY incarnation ORDER BY seq) AS run
    FROM messages WHERE {conditions}
) GROUP BY incarnation, run ORDER BY 1, 2 LIMIT {limit}"""
_BOUNDS: Final = (Next.GIVE_QUERY_MEMORY, Next.GIVE_QUERY_SPACE, Next.GIVE_QUERY_TIME)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The messages that are meant: all that meet each condition. Raises OperatorError if there is none."""

    selection: Selection
    # Name and value of headers, as on the wire: in UTF-8, other bytes as Python escapes those of the command line.
    headers: tuple[tuple[str, str], ...] = ()
    # A condition in DuckDB's SQL over the columns of a query; empty for none.
    where: str = ""

    def __post_init__(self) -> None:
        if not self.kinds:
            raise OperatorError(
                "Nothing says which messages are meant",
                "Give a subject, sequences, a header, hours, times or a condition",
            )

    @property
    def kinds(self) -> list[str]:
        """The kinds of the conditions, without their values."""
        selection = self.selection
        given = {
            "subject": selection.subjects,
            "sequences": selection.sequences,
            "hours": selection.hours,
            "times": selection.times,
            "header": self.headers,
            "where": self.where.strip(),
        }
        return [kind for kind, value in given.items() if value]


def parse_header(text: str) -> tuple[str, str]:
    """Name and value of `NAME=VALUE`. Raises OperatorError."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise OperatorError("A header is written as NAME=VALUE", "Write it so, as Customer=17", field="header")
    return name.strip(), value


def matching(
    workspace: Workspace,
    archive: Archive,
    conditions: Conditions,
    *,
    limits: Limits | None = None,
    is_away: Callable[[], bool] = lambda: False,
) -> dict[Incarnation, tuple[SeqRange, ...]]:
    """The sequences of the archived messages that meet the conditions, ascending. `is_away`: see `process.run`. Raises
    as `process.run` does; OperatorError for a condition that is no single expression, and for too many messages."""
    request = Request(
        workspace.settings,
        statement_of(conditions),
        conditions.selection,
        limits or Limits(),
        archive=archive.name,
        over_gaps=True,  # what was lost cannot be meant
        conditions=(conditions.where,) if conditions.where.strip() else (),
        is_nice=limits is not None,
    )
    try:
        with process.run(request, is_away=is_away) as result:
            return _ranges(workspace, archive, result.rows, conditions.selection.sequences)
    except EngineError as error:
        if isinstance(error.hint, Step) and error.hint.code in _BOUNDS:
            raise EngineError(error.what, Next.NARROW_CONDITIONS()) from error
        raise


def statement_of(conditions: Conditions) -> str:
    """The statement that gives the ranges of sequences: its text has that of `where` in it, which is checked before it
    runs. Raises OperatorError."""
    parts = [f"has_header(headers, {_blob(name)}, {_blob(value)})" for name, value in conditions.headers]
    if conditions.where.strip():
        # On lines of its own: it may end with a comment.
        parts.append(f"(\n{conditions.where}\n)")
    return _STATEMENT.format(conditions=" AND ".join(parts) or "true", limit=MOST_RANGES + 1)


def _ranges(
    workspace: Workspace, archive: Archive, rows: Iterable[tuple[Any, ...]], within: SeqRange | None
) -> dict[Incarnation, tuple[SeqRange, ...]]:
    incarnations = {one.incarnation.token: one.incarnation for one in workspace.catalog.coverage.all(archive)}
    ranges = dict[Incarnation, list[SeqRange]]()
    for number, (token, first, last) in enumerate(rows):
        if number == MOST_RANGES:
            raise OperatorError(
                f"The conditions choose messages in more than {MOST_RANGES:,} places of archive {archive.name}",
                Next.NARROW_CONDITIONS(),
            )
        if within is not None:
            first, last = max(first, within.first), min(last, within.last)
        if first <= last:
            ranges.setdefault(incarnations[token], []).append(SeqRange(first, last))
    return {incarnation: tuple(of_it) for incarnation, of_it in ranges.items()}


def _blob(value: str) -> str:
    """The bytes of a text as a constant of SQL. Raises OperatorError for one that has none."""
    try:
        data = value.strip(" \t").encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise OperatorError("A header has a character that no text has", "Correct it", field="header") from None
    return f"unhex('{data.hex()}')"
