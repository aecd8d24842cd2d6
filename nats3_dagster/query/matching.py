"""Matching: the sequences of the messages that conditions choose, of each incarnation of an archive."""

from dataclasses import dataclass

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, Incarnation, Selection, SeqRange
from nats3_dagster.query import engine
from nats3_dagster.workspace import Workspace

# Runs of adjacent sequences: within one, sequence and row number grow together.
_STATEMENT = """
SELECT incarnation, min(seq), max(seq) FROM (
    SELECT incarnation, seq, seq - row_number() OVER (PARTITION BY incarnation ORDER BY seq) AS run
    FROM messages WHERE {conditions}
) GROUP BY incarnation, run ORDER BY 1, 2"""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Which messages are meant: all that meet each condition. Raises OperatorError if there is none."""

    selection: Selection
    # Name and value of headers, as on the wire.
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


def matching(workspace: Workspace, archive: Archive, conditions: Conditions) -> dict[Incarnation, tuple[SeqRange, ...]]:
    """The sequences of the archived messages that meet the conditions, ascending. Raises as `engine.run` does."""
    parts = [
        f"list_contains(header_values(headers, {_text(name)}), {_text(value)})" for name, value in conditions.headers
    ]
    if conditions.where.strip():
        # On lines of its own: it may end with a comment.
        parts.append(f"(\n{conditions.where}\n)")
    statement = _STATEMENT.format(conditions=" AND ".join(parts) or "true")
    lives = {one.incarnation.token: one.incarnation for one in workspace.catalog.coverage.all(archive)}
    found: dict[Incarnation, list[SeqRange]] = {}
    # What was lost cannot be meant.
    with engine.run(workspace, statement, conditions.selection, archive=archive.name, over_gaps=True) as result:
        for token, first, last in result.rows:
            found.setdefault(lives[token], []).append(SeqRange(first, last))
    return {life: tuple(ranges) for life, ranges in found.items()}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
