"""The changes of a Python module, found in its syntax tree and made in its text.

Texts are not changed, nor what makes an error or a line of the log: no promise rests on their words.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from nats3_dagster_tests.mutants.change import ROOT, Change, Mutant, numbered

# An operator, and what stands instead of it.
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Lt: ("<", "<=", "boundary"),
    ast.LtE: ("<=", "<", "boundary"),
    ast.Gt: (">", ">=", "boundary"),
    ast.GtE: (">=", ">", "boundary"),
    ast.Eq: ("==", "!=", "comparison"),
    ast.NotEq: ("!=", "==", "comparison"),
    ast.Is: ("is", "is not", "comparison"),
    ast.IsNot: ("is not", "is", "comparison"),
    ast.In: ("in", "not in", "comparison"),
    ast.NotIn: ("not in", "in", "comparison"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# A function or an argument, and its opposite.
_WORDS = {"min": "max", "max": "min", "any": "all", "all": "any", "bisect_left": "bisect_right"}
_WORDS |= {"bisect_right": "bisect_left", "left": "right", "right": "left", "popleft": "pop"}
# Arguments that have a type of their own: no other one can take their place unseen.
_ALONE = {b"workspace", b"link", b"client", b"archive", b"catalog", b"sql", b"bucket", b"planned", b"outlet", b"job"}
# Calls that say something and change nothing.
_SAYING = re.compile(r"^(_?log(ger)?|warnings)\.|^(fault_point|assert_never|rebuild|print)\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def python_mutants(module: str) -> list[Mutant]:
    """Returns the mutants of a module, in the order of its text."""
    source = (ROOT / module).read_bytes()
    return numbered(sorted(_Changes(module, source).mutants(), key=lambda mutant: mutant.change.start))


class _Changes:
    """Walks the functions, and the tables and numbers of a module."""

    def __init__(self, module: str, source: bytes) -> None:
        self._module, self._source = module, source
        self._begins = [0]
        for line in source.splitlines(keepends=True):
            self._begins.append(self._begins[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        for node, name in self._places(ast.parse(self._source), ""):
            named = Mutant(self._module, name, node.lineno, (0, 0), self._source, Change(0, 0, b"", ""))
            if isinstance(node, _FUNCTIONS):
                # Decorators are lines of the code object.
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                for statement in node.body:
                    yield from self._statement(replace(named, name_line=first), statement)
            elif (value := node.value) is not None:
                for change in [*self._expression(value), *self._table(value)]:
                    yield replace(named, lines=(0, 0), change=change)

    def _places(
        self, parent: ast.Module | ast.ClassDef, prefix: str
    ) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign, str]]:
        for node in parent.body:
            if isinstance(node, _FUNCTIONS):
                yield node, prefix + node.name
            elif isinstance(node, ast.ClassDef):
                yield from self._places(node, f"{prefix}{node.name}.")
            elif not prefix and isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    yield node, target.id

    # Statements

    def _statement(self, named: Mutant, node: ast.stmt) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            if isinstance(node, ast.Raise):
                yield self._at(named, node, node, b"pass", "removed")
            return
        if isinstance(node, ast.Expr) and self._is_saying(node.value):
            return
        for change in self._whole(node):
            yield replace(named, lines=_lines(node), change=change)
        for field, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.stmt):
                    yield from self._statement(named, one)
                elif isinstance(one, ast.ExceptHandler | ast.match_case):
                    if isinstance(one, ast.match_case) and one.guard:
                        for change in self._expression(one.guard):
                            yield replace(named, lines=_lines(one.guard), change=change)
                    for inner in one.body:
                        yield from self._statement(named, inner)
                elif isinstance(one, ast.expr) and field not in {"annotation", "decorator_list", "returns"}:
                    for change in self._expression(one):
                        yield replace(named, lines=_lines(node), change=change)
                elif isinstance(one, ast.withitem):
                    for change in self._expression(one.context_expr):
                        yield replace(named, lines=_lines(node), change=change)

    def _whole(self, node: ast.stmt) -> Iterator[Change]:
        """Changes of the statement itself."""
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
        if is_call or isinstance(node, ast.Continue | ast.Break | ast.AugAssign | ast.Delete):
            yield self._over(node, b"pass", "removed")
        elif isinstance(node, ast.If | ast.While):
            if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant):
                yield self._over(node.test, b"not (" + self._text(node.test) + b")", "negated")
        elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Name | ast.Tuple | ast.Constant | None):
            yield self._over(node.value, b"None", "no answer")

    # Expressions

    def _expression(self, root: ast.expr) -> Iterator[Change]:
        for node in _walk(root):
            yield from self._one(node)

    def _one(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare():
                left = node.left
                for operator, right in zip(node.ops, node.comparators, strict=True):
                    word, instead, kind = _COMPARISONS[type(operator)]
                    yield self._between(left, right, word, instead, kind)
                    left = right
            case ast.BoolOp():
                word, instead = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for before, after in zip(node.values, node.values[1:], strict=False):
                    yield self._between(before, after, word, instead, "and, or")
            case ast.UnaryOp(op=ast.Not(), operand=inside):
                yield self._over(node, b"(" + self._text(inside) + b")", "negated")
            case ast.UnaryOp(op=ast.USub(), operand=inside):
                yield self._over(node, self._text(inside), "sign")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
                if not any(_is_text(side) for side in (left, right)):
                    word, instead = _ARITHMETIC[type(operator)]
                    yield self._between(left, right, word, instead, "arithmetic")
            case ast.Constant(value=bool() as value):
                yield self._over(node, str(not value).encode(), "true, false")
            case ast.Constant(value=int() as value):
                yield self._over(node, str(value + 1).encode(), "number")
                if value > 0:
                    yield self._over(node, str(value - 1).encode(), "number")
            case ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield self._over(test, b"not (" + self._text(test) + b")", "negated")
            case ast.comprehension(ifs=conditions):
                for condition in conditions:
                    if not isinstance(condition, ast.Compare | ast.UnaryOp):
                        yield self._over(condition, b"not (" + self._text(condition) + b")", "negated")
            case ast.Call():
                yield from self._call(node)
            case _:
                pass

    def _call(self, node: ast.Call) -> Iterator[Change]:
        called = node.func
        if isinstance(called, ast.Name) and called.id in _WORDS:
            yield self._over(called, _WORDS[called.id].encode(), "opposite")
        elif isinstance(called, ast.Attribute) and called.attr in _WORDS:
            start, end = self._span(called)
            yield Change(end - len(called.attr), end, _WORDS[called.attr].encode(), "opposite")
        for word in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value in _WORDS:
                yield self._over(word, f'"{_WORDS[word.value]}"'.encode(), "opposite")
        names = node.args[:2]
        if len(names) == 2 and all(isinstance(one, ast.Name | ast.Attribute | ast.Subscript) for one in names):
            texts = [self._text(one) for one in names]
            is_alone = bool({*texts} & _ALONE) or self._text(called) in {b"isinstance", b"min", b"max"}
            if texts[0] != texts[1] and not is_alone:
                (start, first_end), (second, end) = self._span(names[0]), self._span(names[1])
                yield Change(start, end, texts[1] + self._source[first_end:second] + texts[0], "swapped")

    def _table(self, root: ast.expr) -> Iterator[Change]:
        """Changes of the entries of a table: none, or the value of another one."""
        for node in _walk(root):
            if not isinstance(node, ast.Dict):
                continue
            named = [value for value in node.values if isinstance(value, ast.Attribute)]
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    continue
                rest = re.compile(rb"\s*,?").match(self._source, self._span(value)[1])
                yield Change(self._span(key)[0], rest.end() if rest else 0, b"", "no entry")
                if isinstance(value, ast.Attribute):
                    after = named[named.index(value) + 1 :] + named
                    if other := next((one for one in after if one.attr != value.attr), None):
                        yield self._over(value, self._text(other), "another entry")

    # Texts

    def _span(self, node: ast.AST) -> tuple[int, int]:
        where: ast.expr = node  # type: ignore[assignment]
        assert where.end_lineno is not None
        assert where.end_col_offset is not None
        return (
            self._begins[where.lineno - 1] + where.col_offset,
            self._begins[where.end_lineno - 1] + where.end_col_offset,
        )

    def _text(self, node: ast.AST) -> bytes:
        start, end = self._span(node)
        return self._source[start:end]

    def _over(self, node: ast.AST, text: bytes, kind: str) -> Change:
        return Change(*self._span(node), text, kind)

    def _at(self, named: Mutant, lines: ast.stmt, node: ast.AST, text: bytes, kind: str) -> Mutant:
        return replace(named, lines=_lines(lines), change=self._over(node, text, kind))

    def _between(self, before: ast.AST, after: ast.AST, word: str, instead: str, kind: str) -> Change:
        """Another operator between two expressions. Only brackets and white space stand there too."""
        _, start = self._span(before)
        end, _ = self._span(after)
        pattern = r"\s+".join(re.escape(part) for part in word.split())
        match = re.search(pattern.encode(), self._source[start:end])
        assert match, (self._module, word, self._source[start:end])
        return Change(start + match.start(), start + match.end(), instead.encode(), kind)

    def _is_saying(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) or bool(_SAYING.match(self._text(node).decode()))


def _walk(root: ast.AST) -> Iterator[ast.AST]:
    """Yields the expressions that are no part of a text."""
    if isinstance(root, ast.JoinedStr):
        return
    yield root
    for child in ast.iter_child_nodes(root):
        yield from _walk(child)


def _lines(node: ast.stmt | ast.expr) -> tuple[int, int]:
    """The lines of a statement, those of its body left out."""
    body: list[ast.stmt] = getattr(node, "body", None) or []
    last = node.end_lineno or node.lineno
    if body and isinstance(body, list) and isinstance(body[0], ast.stmt):
        last = max(node.lineno, body[0].lineno - 1)
    return node.lineno, last


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
