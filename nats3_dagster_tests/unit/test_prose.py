"""Plain English in pages, help texts, errors, docstrings and comments, SQL included: no word that is read twice.

Text in backquotes, in blocks of code and in the targets of links is quoted, and not looked at. CHANGELOG.md is a record
of the past, and is left as it was written.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUERIES = sorted((ROOT / "nats3_dagster" / "catalog" / "sql").glob("*.sql"))
PACKAGES = sorted(folder.parent for folder in (ROOT / "nats3_dagster").rglob("*.py") if folder.name == "__init__.py")

# A word, and what to write instead.
INSTEAD = {
    r"behind": "after (a sequence), late (a process), in front of (a proxy)",
    r"nobody|somebody|whoever": "no process, another client, the user, anyone who",
    r"of which|by which": "a second sentence",
    r"lacks?|lacked|lacking": "missing, without, does not have",
    r"so many|as many": "the number, at most N",
    r"no more(?=\s*(?:[.,;:!?)]|\Z))": "no longer, obsolete, retired",
    r"anew": "again",
    r"(?<!\[)us|ours|who we are": "nats3, the identity",
}
_WORDS = [
    (re.compile(rf"\b(?:{words.replace(' ', chr(92) + 's+')})(?!\w)", re.IGNORECASE), instead)
    for words, instead in INSTEAD.items()
]
_FIRST_WORD = re.compile(
    r"\s*(After|Also|Always|As|Asked|At|Before|Beside|Between|By|For|From|How|If|In|Its|Never|None|Of|On|Once|Over|Those"
    r"|To|Under|Until|What|When|Where|Whether|Which|While|Who|Why|With|Without)\b"
)
_FIRST_WORD_OF_QUERY = re.compile(r"\s*(What|Whether|Of|By|Who)\b")
_QUOTED = re.compile(r"(`+).*?\1|(?<=\])\([^)\s]*\)", re.DOTALL)


def blank(match: re.Match[str]) -> str:
    """Replaces quoted code by a placeholder that keeps the number of lines."""
    return "`" + "\n" * match[0].count("\n") + "`"


def problems(text: str, first_line: int) -> Iterator[str]:
    """Yields the line of each word of the table in the text, and what to write instead."""
    quoted = _QUOTED.sub(blank, text)
    for pattern, instead in _WORDS:
        for match in pattern.finditer(quoted):
            line = first_line + quoted.count("\n", 0, match.start())
            yield f"{line}: {' '.join(match[0].split())!r}: write {instead}"


def page_problems(page: Path) -> list[str]:
    """Returns the problems of a page outside of its blocks of code."""
    is_code = False
    lines: list[str] = []
    for line in page.read_text().splitlines():
        is_fence = line.lstrip().startswith("```")
        lines.append("" if is_code or is_fence else line)
        is_code ^= is_fence
    return list(problems("\n".join(lines), 1))


def docstrings(tree: ast.Module) -> set[ast.Constant]:
    """Returns the constants that are docstrings."""
    found: set[ast.Constant] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as text), *_]:
                    found.add(text)
                case _:
                    pass
    return found


def comments(source: str) -> list[tuple[int, str]]:
    """Returns the comments, those on neighbouring lines as one, each with its first line."""
    found: list[tuple[int, str]] = []
    last_line = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("#")
        if token.start[0] == last_line + 1:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}")
        else:
            found.append((token.start[0], text))
        last_line = token.start[0]
    return found


def module_problems(module: Path) -> list[str]:
    """Returns the problems of a module's docstrings, comments and texts. A string without a space is a name."""
    source = module.read_text()
    found: list[str] = []
    tree = ast.parse(source)
    documented = docstrings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if node in documented:
            if begins := _FIRST_WORD.match(node.value):
                found.append(f"{node.lineno}: a docstring begins with {begins[1]!r}: write a verb or a noun first")
        elif " " not in node.value.strip():
            continue
        found.extend(problems(node.value, node.lineno))
    for first_line, comment in comments(source):
        found.extend(problems(comment, first_line))
    return found


def query_problems(file: Path) -> list[str]:
    """Returns the problems of the comments in a file of SQL queries."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    prose = [line[2:] if line.startswith("--") and not line.startswith("-- name:") else "" for line in lines]
    first = [
        f"{number}: a comment begins with {begins[1]!r}: write a verb or a noun first"
        for number, (before, line) in enumerate(pairwise(["", *prose]), 1)
        if not before and (begins := _FIRST_WORD_OF_QUERY.match(line))
    ]
    return [*first, *problems("\n".join(prose), 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page: Path) -> None:
    assert page_problems(page) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_texts_and_docstrings_are_plain(package: Path) -> None:
    assert [
        f"{module.relative_to(ROOT)}:{problem}"
        for module in sorted(package.glob("*.py"))
        for problem in module_problems(module)
    ] == []


@pytest.mark.parametrize("file", QUERIES, ids=lambda file: file.name)
def test_comments_of_queries_are_plain(file: Path) -> None:
    assert query_problems(file) == []
