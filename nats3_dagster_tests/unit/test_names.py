"""Names of others in Dagster: whatever streams, archives, exports and replays are called, the code location loads."""

import re
import time
import warnings
from typing import Any

import pytest
from dagster import AssetKey, BetaWarning, Definitions, SensorDefinition, build_sensor_context
from hypothesis import given, settings
from hypothesis import strategies as st

import nats3_dagster
from nats3_dagster.chunks.naming import object_key
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.assets.metadata import plan_table
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.keys import PROJECT, key_part
from nats3_dagster.defs.project.archive_definitions import Defined
from nats3_dagster.defs.project.platform import Platform
from nats3_dagster.defs.project.project import definitions_of
from nats3_dagster.model import ArchiveSpec, ExportSpec, Incarnation, ReplayPreset, ReplaySpec, SeqRange
from nats3_dagster.model.stream import STREAM_NAME

BEGINS = time.time_ns() - 3 * 3_600_000_000_000
# As people choose them, and what a name of Dagster, Markdown, a path, a format string or a pattern may trip over.
STREAMS = [
    *(
        "ORDERS",
        "orders:eu",
        "Über=1+1",
        "日本",
        "a_x3A_b",
        "a:b",
        "_",
        "__",
        "-",
        "--",
        "x-y",
        "x_y",
        "chunks",
        "sealed",
    ),
    *("jetstream", "%s", "%2F", "{archive}", "$x", "#1", "@here", "a'b", 'a"b', "`b`", "[a](b)", "a|b"),
    *("a,b", "a;b", "a&b", "a?b", "~", "^", "()"),
]
streams = st.one_of(
    st.sampled_from(STREAMS), st.text(min_size=1, max_size=60), st.text(alphabet="_xX0F3A:", min_size=1, max_size=9)
).filter(lambda name: re.fullmatch(STREAM_NAME.regex, name) is not None)


def decoded(part: str) -> str:
    return re.sub("_x([0-9A-F]+)_", lambda found: chr(int(found[1], 16)), part)


@given(streams)
@settings(max_examples=300, deadline=None)
def test_a_part_of_a_key_is_a_name_in_dagster_and_stands_for_one_stream(stream: str) -> None:
    part = key_part(stream)
    assert re.fullmatch("[A-Za-z0-9_-]+", part)
    assert decoded(part) == stream
    if re.fullmatch("[A-Za-z0-9-]+", stream):
        assert part == stream


def test_parts_of_keys_as_they_are_documented() -> None:
    wanted = {"my_x-logs": "my_x-logs", "orders:eu": "orders_x3A_eu", "orders_x3A_eu": "orders_x5F_x3A_eu"}
    assert {stream: key_part(stream) for stream in wanted} == wanted


def defined(number: int, name: str, stream: str, exports: tuple[str, ...], presets: tuple[str, ...]) -> Defined:
    return Defined(
        ArchiveSpec(name, stream, "bucket"),
        BEGINS,
        number,
        exports=tuple(ExportSpec(one, "s3://files/x") for one in dict.fromkeys(exports)),
        presets=tuple(ReplayPreset(one, ReplaySpec("", "back.>")) for one in dict.fromkeys(presets)),
    )


def loaded(every: list[Defined]) -> Definitions:
    definitions = definitions_of(every, PROJECT, Platform())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        definitions.get_repository_def().load_all_definitions()
    return definitions


def test_a_code_location_with_streams_of_any_name_loads() -> None:
    every = [defined(number, f"a{number}", name, ("files",), ("back",)) for number, name in enumerate(STREAMS)]
    definitions = loaded(every)
    assert not [one.name for one in definitions.sensors or () if _fails(one)]
    graph = definitions.resolve_asset_graph()
    assert {decoded(key.path[1]) for key in graph.get_all_asset_keys() if graph.get(key).is_external} == {*STREAMS}
    for number, name in enumerate(STREAMS):
        assert graph.get(AssetKey([f"a{number}", "chunks"])).parent_keys == {PROJECT.stream_key(name)}


def _fails(sensor: SensorDefinition) -> bool:
    return "has no definitions" in (sensor.description or "")


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        ([("x_replay", "A", (), ()), ("x", "B", (), ("capture",))], {"x"}),
        ([("a__x", "A", (), ()), ("a", "B", ("x__chunks",), ())], {"a"}),
        ([("other", "chunks", (), ()), ("jetstream", "B", (), ())], {"jetstream"}),
        ([("jetstream", "B", (), ()), ("other", "chunks", (), ())], {"other"}),
        ([("resume", "A", (), ())], {"resume"}),
        ([("one", "orders:eu", (), ()), ("two", "Über=1+1", (), ())], set[str]()),
    ],
)
def test_the_newer_one_of_two_with_one_name_has_a_sensor_that_says_so(
    rows: list[tuple[str, str, Any, Any]], failing: set[str]
) -> None:
    definitions = loaded([defined(number, *row) for number, row in enumerate(rows)])
    sensors = {name: definitions.resolve_sensor_def(f"{name}_capture_sensor") for name, *_ in rows}
    assert {name for name, sensor in sensors.items() if _fails(sensor)} == failing
    for name in failing:
        evaluate: Any = sensors[name]
        with pytest.raises(CannotTick, match=f"Archive {name} has no definitions in Dagster, and nothing captures it"):
            evaluate(build_sensor_context())


@given(st.text(min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_a_text_of_others_is_code_in_a_plan_and_in_no_path(text: str) -> None:
    """Of a subject, a header or a stream."""
    table = plan_table({"subjects": [text]})
    assert len(table.splitlines()) == 3
    assert code(text) in table
    key = object_key("p", "events", "2026-11-21-07:00", Incarnation(text, 1), SeqRange(1, 2), "0" * 64)
    assert re.fullmatch("p/archive=events/date=2026-11-21/hour=07/[0-9TZ]+-[0-9]+-[0-9]+-0{12}.parquet", key)


@pytest.mark.parametrize("name", nats3_dagster.__all__)
def test_a_name_for_other_projects_is_there(name: str) -> None:
    """They are imported when they are asked for, by modules that a table names."""
    assert getattr(nats3_dagster, name) is not None
