"""A condition that another person wrote: one expression over the columns of a message, which is true or is not.

Invariant: the text is parsed alone before it becomes a part of a statement, and nothing runs for that. So it ends
nothing, adds nothing beside itself, and can only narrow what the statement takes.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.query.faults import duckdb_module, line, worded

# Characters of a condition.
LONGEST: Final = 4096
_DESCRIBE: Final = "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)"
# The parts of DuckDB's description of `SELECT <expression>`.
_PARTS: Final = {"type", "select_list", "from_table", "aggregate_handling", "cte_map"}
_HINT: Final = "Write what stands after WHERE in a query, such as: subject LIKE 'orders.%' AND seq < 1000"


def checked(text: str) -> str:
    """The text, if it is one expression. Raises OperatorError."""
    if len(text) > LONGEST:
        raise _refused(f"The condition has more than {LONGEST:,} characters")
    if not _is_utf8(text) or "\0" in text:
        raise _refused("The condition has a NUL, or bytes that are not UTF-8")
    with worded(text, {}), duckdb_module().connect() as session:
        # On lines of its own: it may end with a comment. In parentheses and without: what ends the parentheses is no
        # expression without them, and what only a SELECT may have beside an expression is none in them.
        for statement in (f"SELECT\n{text}\n", f"SELECT (\n{text}\n)"):
            ((described,),) = session.execute(
                "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)",
                [statement],
            ).fetchall()
            document = _parsed(described)
            if document.get("error"):
                reason = line(document.get("error_message", "")).partition(". Use ")[0]
                raise _refused(f"The condition is no expression: {reason}")
            statements = document.get("statements", [])
            if len(statements) != 1 or not _is_expression(statements[0]):
                raise _refused("The condition is no single expression")
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        return json.loads(text)
    except RecursionError:
        raise _refused("The condition is nested too deeply") from None
    except ValueError as error:
        raise EngineError("DuckDB describes the condition as something that is no JSON", "Report it") from error


def _is_expression(statement: Mapping[str, Any]) -> bool:
    """True for `SELECT` of one expression without a name, a table and anything else beside it."""
    node = statement.get("node", {})
    selected = node.get("select_list", [])
    return (
        not statement.get("named_param_map")
        and node.get("type") == "SELECT_NODE"
        and _PARTS.issuperset(node)
        and not node.get("cte_map", {}).get("map")
        and node.get("aggregate_handling", "STANDARD_HANDLING") == "STANDARD_HANDLING"
        and node.get("from_table", {}).get("type") == "EMPTY"
        and len(selected) == 1
        and not selected[0].get("alias")
        and selected[0].get("class") != "STAR"
    )


def _refused(what: str) -> OperatorError:
    return OperatorError(what, _HINT, field="where")
