"""Extremes: which statements ask an archive for smallest and largest values alone.

Invariant: a statement of another form is not taken for one, also where a release of DuckDB describes it in another way;
then the chunks are read.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

# The parts of DuckDB's description of a SELECT that may be given. With any other part it is of another form.
_STATEMENT: Final = {"type", "select_list", "from_table", "aggregate_handling", "cte_map"}
_TABLE: Final = {"type", "alias", "query_location", "query_location_length", "table_name", "qualified_name"}
_CALL: Final = {
    "class",
    "type",
    "alias",
    "query_location",
    "query_location_length",
    "function_name",
    "is_operator",
    "arguments",
    "qualified_name",
    "order_bys",
}


def asks_for_extremes(session: "duckdb.DuckDBPyConnection", sql: str) -> bool:
    """True if a statement is `min` and `max` of columns of one table, without conditions and groups, and what is
    computed of these values. Each row may then be left out that has neither the smallest nor the largest value of a
    column."""
    # Parts that the statement does not have are left out of the description.
    described = session.execute(
        "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)", [sql]
    ).fetchall()  # all of it: a result that is not fetched to its end blocks the connection
    statements = json.loads(described[0][0]).get("statements", [])
    return len(statements) == 1 and _is_select_of_extremes(statements[0].get("node", {}))


def _is_select_of_extremes(node: Mapping[str, Any]) -> bool:
    table = node.get("from_table", {})
    return (
        node.get("type") == "SELECT_NODE"
        and node.get("aggregate_handling", "STANDARD_HANDLING") == "STANDARD_HANDLING"
        and not node.get("cte_map", {}).get("map")
        and _STATEMENT.issuperset(node)
        and table.get("type") == "BASE_TABLE"
        and _TABLE.issuperset(table)
        and any(map(_is_of_extremes, node.get("select_list", [])))
        and all(map(_is_of_extremes_or_constant, node["select_list"]))
    )


def _is_of_extremes_or_constant(expression: Mapping[str, Any]) -> bool:
    return expression.get("class") == "CONSTANT" or _is_of_extremes(expression)


def _is_of_extremes(expression: Mapping[str, Any]) -> bool:
    """True for `min` or `max` of a column, and for a function or a cast of such values. A function of an aggregate's
    value is no aggregate: they cannot be nested."""
    if expression.get("class") == "CAST":
        return _is_of_extremes(expression.get("child", {}))
    if expression.get("class") != "FUNCTION" or not _CALL.issuperset(expression):
        return False
    if expression.get("order_bys", {}).get("orders"):
        return False
    arguments = [argument.get("expression", {}) for argument in expression.get("arguments", [])]
    if expression.get("function_name") in ("min", "max") and len(arguments) == 1:
        return arguments[0].get("class") == "COLUMN_REF"
    return any(map(_is_of_extremes, arguments)) and all(map(_is_of_extremes_or_constant, arguments))
