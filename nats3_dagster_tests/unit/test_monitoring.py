"""The alert rules, the dashboard and the page: each name in them is exported, and each exported name is in the page."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster.archive.metrics_snapshot import ArchiveMeasures
from nats3_dagster.documents.metrics import Exposition
from nats3_dagster.replay.metrics_snapshot import Measurement

DOCS = Path(__file__).parents[2] / "docs"
RULES, DASHBOARD = DOCS / "monitoring" / "alerts.yaml", DOCS / "monitoring" / "grafana-dashboard.json"
_SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"]}


@pytest.fixture(scope="module")
def exported() -> dict[str, list[str]]:
    """The names of the series of each family."""
    families = Exposition(Measurement({"nats": True}, ArchiveMeasures())).collect()
    return {f.name: [f.name + suffix for suffix in _SUFFIXES.get(f.type, [""])] for f in families}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def names(text: str) -> set[str]:
    return set(re.findall(r"\bnats3_\w+", text))


def test_what_is_used_is_exported(exported: dict[str, list[str]]) -> None:
    every = {name for series in exported.values() for name in series}
    assert names(RULES.read_text()) <= every
    assert names(DASHBOARD.read_text()) <= every


def test_what_is_exported_is_explained(exported: dict[str, list[str]]) -> None:
    page = (DOCS / "monitoring.md").read_text()
    rows = set(re.findall(r"^\| `(nats3_\w+)` \|", page, re.M))
    assert rows == {series[0].removesuffix("_bucket") for series in exported.values()}
    alerts = set(re.findall(r"`(Nats3\w+)`", page))
    assert alerts == {rule["alert"] for rule in rules()}


# What `promtool check metrics` finds fault with in a name: units beside the base ones, short ones, kinds of metrics.
UNFIT = {
    "minutes",
    "hours",
    "days",
    "weeks",
    "months",
    "years",
    "bits",
    "miles",
    "feet",
    "fahrenheit",
    "ms",
    "us",
    "ns",
    "sec",
    "s",
    "m",
    "h",
    "d",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "pb",
    "counter",
    "gauge",
    "histogram",
    "summary",
}


def test_names_are_as_prometheus_wants_them(exported: dict[str, list[str]]) -> None:
    prefixes = re.compile("milli|micro|nano|kilo|mega|giga|kibi|mebi")
    wrong = {name for name in exported if UNFIT & set(name.split("_")) or prefixes.search(name)}
    assert wrong == set()
    assert [name for name in exported if not re.fullmatch(r"[a-z0-9_]+", name)] == []


def test_every_expression_is_promql() -> None:
    promql = pytest.importorskip("promql_parser")
    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in panels() for target in panel["targets"]]
    assert len(expressions) > 40
    for expression in expressions:
        promql.parse(expression.replace("$__rate_interval", "5m").replace("$archive", ".*"))


def test_lag_is_late_only_beyond_the_age_at_which_a_capture_is_due() -> None:
    late = {rule["alert"]: rule["expr"] for rule in rules() if "archive_lag_" in rule["expr"]}
    assert late.keys() == {"Nats3NoCapture", "Nats3NeverCaptured", "Nats3LagGrows"}
    beyond = re.compile(
        r"nats3_archive_lag_seconds > on \(instance, job, archive\) nats3_archive_max_age_seconds \+ \d+\s+and "
    )
    assert {alert for alert, expression in late.items() if not beyond.match(expression)} == set()


def test_the_rules_are_rules() -> None:
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
    if promtool := shutil.which("promtool"):
        ran = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr + ran.stdout


def test_the_dashboard_asks_the_chosen_source_for_the_chosen_archives() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "archive"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        for target in panel["targets"]:
            of_archive = set(re.findall(r"nats3_(?:archive|replay|table|export)_\w+", target["expr"]))
            assert target["expr"].count('archive=~"$archive"') == len(of_archive), target["expr"]
