"""The changes of the statements in a file of SQL, by a small table."""

import re
from collections.abc import Iterator

from nats3_dagster_tests.mutants.change import ROOT, Change, Mutant, numbered

# A pattern, and what stands instead of it. A pattern matches a whole word or sign.
_TABLE = [
    (r"(?<![<>=!-])<(?![=>@&])", "<=", "boundary"),
    (r"<=", "<", "boundary"),
    (r"(?<![<>=!@-])>(?![=>])", ">=", "boundary"),
    (r">=", ">", "boundary"),
    (r"(?<![<>=!:])=(?![>])", "<>", "comparison"),
    (r"<>", "=", "comparison"),
    (r"\bis distinct from\b", "is not distinct from", "comparison"),
    (r"\bis not null\b", "is null", "comparison"),
    (r"\bis null\b", "is not null", "comparison"),
    (r"\bnot\b(?! null)", "", "negated"),
    (r"\band\b", "or", "and, or"),
    (r"\bor\b", "and", "and, or"),
    (r"(?<=[\w)}]) \+ (?=[\w(])", " - ", "arithmetic"),
    (r"(?<=[\w)}]) - (?=[\w(])", " + ", "arithmetic"),
    (r"(?<=[\w)}])\s- coalesce", " + coalesce", "arithmetic"),
    (r"\bmin\b(?=\()", "max", "opposite"),
    (r"\bmax\b(?=\()", "min", "opposite"),
    (r"\bleast\b", "greatest", "opposite"),
    (r"\bgreatest\b", "least", "opposite"),
    (r"\blower\b(?=\()", "upper", "opposite"),
    (r"\bupper\b(?=\()", "lower", "opposite"),
    (r"(order by (?:[^()]|\([^()]*\))*?)\bdesc\b", r"\1", "order"),
    (r"'\[\]'", "'[)'", "boundary"),
    (r"\bleft join\b", "join", "join"),
    (r"\bunion all\b", "union", "join"),
    (r"(?<![\w:.'\[-])\d+(?![\w.'])", None, "number"),
]
_NAME = re.compile(r"^-- name: (?P<name>\w+)\(.*\)$", re.MULTILINE)
# Comments, casts and texts are kept; an interval of hours and the closed range '[]' are changed by the table.
_KEPT = re.compile(r"--[^\n]*|'(?!\[\]')(?:[^']|'')*'")


def sql_mutants(module: str) -> list[Mutant]:
    """Returns the mutants of the statements of a file."""
    text = (ROOT / module).read_text()
    heads = [*_NAME.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    found: list[Mutant] = []
    for head, end in zip(heads, ends, strict=True):
        line = text.count("\n", 0, head.start()) + 1
        for change in _changes(text, head.end(), end):
            found.append(Mutant(module, head["name"], line, (0, 0), text.encode(), change))
    return numbered(sorted(found, key=lambda mutant: mutant.change.start))


def _changes(text: str, first: int, end: int) -> Iterator[Change]:
    statement = _KEPT.sub(lambda match: "\0" * len(match[0]), text[first:end])
    for pattern, instead, kind in _TABLE:
        for match in re.finditer(pattern, statement):
            was = match[0]
            now = str(int(was) + 1) if instead is None else match.expand(instead)
            start = first + match.start()
            # Places count bytes: a statement may have other letters than ASCII in its comments.
            yield Change(len(text[:start].encode()), len(text[: start + len(was)].encode()), now.encode(), kind)
