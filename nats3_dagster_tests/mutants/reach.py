"""The lines and statements that a test reaches: each function of the modules notes the lines of its own statements.

Python's tracing would ask at each call of any function, also of pytest's and of the servers', and takes three times as
long.
"""

import ast
from collections.abc import Callable
from pathlib import Path

from nats3_dagster.catalog.session import statements
from nats3_dagster_tests.mutants import put_in

_NOTE = "_note_that_a_test_reaches"


class Reach:
    """What is reached of these files while it is entered, in every thread. Make one for each process alone: the
    functions of the files stay as it changes them."""

    def __init__(self, files: dict[str, str], functions: put_in.Functions) -> None:
        # The lines by the module's name in the table.
        self._lines: dict[str, set[int]] = {module: set() for module in files.values()}
        self._statements: set[str] = set()
        self._text = statements._text
        for file, module in files.items():
            if file.endswith(".py"):
                _let_note(file, functions, self._lines[module].add)

    def __enter__(self) -> "Reach":
        for lines in self._lines.values():
            lines.clear()
        self._statements.clear()
        statements._text = self._noting_text
        return self

    def __exit__(self, *_: object) -> None:
        statements._text = self._text

    def lines(self) -> dict[str, list[int]]:
        """The lines by module, without modules that were not reached."""
        return {module: sorted(lines) for module, lines in self._lines.items() if lines}

    def statements(self) -> list[str]:
        """The names of the statements that were run."""
        return sorted(self._statements)

    def _noting_text(self, statement: str) -> bytes:
        self._statements.add(statement)
        return self._text(statement)


def _let_note(file: str, functions: put_in.Functions, note: Callable[[int], None]) -> None:
    """Lets the functions of a file tell each statement's line before it is run."""
    tree = _Noting().visit(ast.parse(Path(file).read_bytes()))
    codes = put_in.codes_by_place(compile(ast.fix_missing_locations(tree), file, "exec"))
    for function in functions[file]:
        if code := codes.get((function.__qualname__, function.__code__.co_firstlineno)):
            function.__globals__[_NOTE] = note
            function.__code__ = code


class _Noting(ast.NodeTransformer):
    """Puts a call before each statement, and into each guard."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Module | ast.ClassDef):
            return node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(own := getattr(node, field, None), list):
                setattr(node, field, [one for line in own for one in (ast.Expr(_call(line)), line)])
        if isinstance(node, ast.match_case) and node.guard:
            node.guard = ast.BoolOp(ast.Or(), [_call(node.guard), node.guard])
        return node


def _call(node: ast.stmt | ast.expr) -> ast.Call:
    """The call that notes the line of a node."""
    call = ast.Call(ast.Name(_NOTE, ast.Load()), [ast.Constant(node.lineno)], [])
    return ast.fix_missing_locations(ast.copy_location(call, node))
