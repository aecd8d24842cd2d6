"""The pages: what they link to is there, and no command is missing."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster_tests.support.commands import root_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> Iterator[str]:
    """The lines outside of blocks of code."""
    is_code = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield line


@cache
def anchors(page: Path) -> set[str]:
    """Of its titles, as GitHub makes them."""
    found: list[str] = []
    for line in prose(page):
        if title := re.match(r"#+ (.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title[1]).strip().lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


def broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or bool(anchor and anchor not in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_title_that_are_there(page: Path) -> None:
    links = {link for line in prose(page) for link in _LINK.findall(line)}
    assert [link for link in sorted(links) if "://" not in link and broken(page, link)] == []


def test_the_index_has_every_page_once() -> None:
    listed = [link for line in prose(ROOT / "docs" / "README.md") for link in _LINK.findall(line)]
    assert sorted(listed) == sorted(["../README.md", *(page.name for page in PAGES if page.name != "README.md")])


def test_every_row_of_features_has_its_page() -> None:
    rows = [line for line in prose(ROOT / "README.md") if line.startswith("|") and "docs/" in line.split("|")[-2]]
    features = [row for row in rows if re.fullmatch(r"\[docs/\S+\]\(docs/\S+\)", row.split("|")[-2].strip())]
    assert len(features) > 6
    for word in ("Single messages", "SQL", 'format("nats3")', 'format("jetstream")', "Exports", "Iceberg"):
        assert any(word in row for row in features), word


def test_every_command_is_in_its_page() -> None:
    listed: dict[str, set[str]] = {}
    for line in prose(ROOT / "docs" / "cli.md"):
        if row := re.match(r"\| `nats3 ([\w-]+)` \| (.*?) \|", line):
            listed[row[1]] = set(re.findall(r"`(\w+)`", row[2]))
    commands: dict[str, set[str]] = {}
    for name, command in root_command().commands.items():
        below = command.commands if isinstance(command, LazyGroup) else {}
        commands[name] = {one for one in below if not below[one].hidden}
    assert listed == commands


def test_each_report_about_a_neighbour_has_its_project_and_what_shows_it() -> None:
    """The page counts its reports, and names a test or a module for each: both are there."""
    text = (ROOT / "docs" / "neighbours.md").read_text()
    projects = re.findall(r"^\| (\S+) \| \[(\S+)\]\(https://github\.com/\2\) \|$", text, re.MULTILINE)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if re.match(r"\| \S+#\d", line)
    ]
    reports = [report for row in rows for report in row[0].split(", ")]
    assert len(rows) >= 60
    assert f"{len(reports)} public reports" in text
    assert f"in {len(rows)} situations" in text
    assert len(set(reports)) == len(reports)
    named = [re.fullmatch(r"([\w.-]+)#[1-9]\d*", report) for report in reports]
    assert {match[1] if match else "" for match in named} == {name for name, _ in projects}
    for report, situation, here, shown in rows:
        assert situation.endswith("."), report
        assert here.endswith("."), report
        tests, modules = (
            re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown),
            re.findall(r"by construction: `(\S+)`", shown),
        )
        assert tests or modules, report
        for file, test in tests:
            assert re.search(rf"^def {test}\(", (ROOT / "nats3_dagster_tests" / file).read_text(), re.MULTILINE), test
        assert [module for module in modules if not (ROOT / "nats3_dagster" / module).exists()] == []
