"""The public interface as data, and its comparison with a golden file.

Invariant: only names, types and settings are recorded, never a value of a run (a count, an id, a time).
"""

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from dagster import Definitions

GOLDEN = Path(__file__).parents[1] / "data" / "interface.json"
# Read at import: no test sees a variable of this prefix.
WRITE = bool(os.environ.get("NATS3_WRITE_INTERFACE"))
DIFFERENCES = 40
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def compare(**sections: Mapping[str, Any]) -> None:
    """Fail with what was added to and removed from these sections of the golden file; or write them."""
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if WRITE:
        text = json.dumps({**golden, **sections}, indent=1, sort_keys=True, ensure_ascii=False)
        GOLDEN.write_text(text + "\n")
        return
    before, now = set(_lines({name: golden.get(name) for name in sections})), set(_lines(sections))
    changes = sorted([(line, "-") for line in before - now] + [(line, "+") for line in now - before])
    if changes:
        shown = [f"{sign} {line}" for line, sign in changes[:DIFFERENCES]]
        more = [f"and {len(changes) - DIFFERENCES} more"] if len(changes) > DIFFERENCES else []
        head = f"{len(changes)} lines of the public interface are not as in {GOLDEN.name} (- golden file, + now)."
        hint = "If that is intended: run this test with NATS3_WRITE_INTERFACE=1, and commit the file."
        pytest.fail("\n".join([head, hint, *shown, *more]), pytrace=False)


def _lines(value: Any, path: str = "") -> Iterator[str]:
    """One line for each leaf: `store get / gaps[] / reason: string`."""
    match value:
        case {**items} if items:
            for name, item in items.items():
                yield from _lines(item, f"{path} / {name}" if path else name)
        case [_, *_]:
            for item in value:
                yield from _lines(item, f"{path}[]")
        case _:
            yield f"{path}: {value if isinstance(value, str) else json.dumps(value)}"


# JSON


def shape(value: Any, maps: frozenset[str] = frozenset()) -> Any:
    """The keys and types of a JSON value: a list has the merged shape of its items. The keys of the dicts named in
    `maps` are data, and stand as one `*`."""
    if isinstance(value, dict):
        return {
            name: {"*": reduce(merged, (shape(i, maps) for i in item.values()), "null")}
            if name in maps and isinstance(item, dict)
            else shape(item, maps)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [reduce(merged, (shape(item, maps) for item in value))] if value else []
    return _JSON_TYPES[type(value)]


def merged(one: Any, other: Any) -> Any:
    """Both shapes in one. `null` beside another type is left out, for whether a value is null may vary."""
    if "null" in (one, other):
        return other if one == "null" else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: merged(one.get(k, "null"), other.get(k, "null")) for k in one | other}
    if isinstance(one, list) and isinstance(other, list):
        return [reduce(merged, one + other)] if one + other else []
    assert isinstance(one, str), (one, other)
    assert isinstance(other, str), (one, other)
    types = {*one.split("|"), *other.split("|")}
    return "|".join(sorted(types - {"integer"} if "number" in types else types))


# Command line


def command_tree(command: Any, name: str = "nats3", parent: Any = None) -> dict[str, Any]:
    """Parameters, and the commands below."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    parameters = [_parameter(p) for p in command.get_params(context)]
    tree: dict[str, Any] = {"hidden": command.hidden, "parameters": dict(parameters)}
    assert len(tree["parameters"]) == len(parameters), name
    if below := getattr(command, "commands", None):
        tree["runs_alone"] = command.invoke_without_command
        tree["commands"] = {n: command_tree(c, n, context) for n, c in below.items()}
    return tree


def _parameter(parameter: Any) -> tuple[str, str]:
    """(`--hour`, `YYYY-MM-DD-HH:00, multiple`): the options or the argument, and what it takes."""
    option = parameter.param_type_name == "option"
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
    if option and parameter.is_flag:
        takes = "flag"
    elif parameter.metavar and option:
        # The name of a class of ours is no interface.
        takes = f"{parameter.metavar}{f' ({annotation.__name__})' if annotation in _JSON_TYPES else ''}"
    elif issubclass(annotation, Enum):
        takes = "|".join(str(choice.value) for choice in annotation)
    else:
        takes = annotation.__name__
    facts = [takes, *(word for word in ("required", "multiple", "hidden") if getattr(parameter, word))]
    facts += [f"{word} {bound}" for word in ("min", "max") if (bound := getattr(parameter, word)) is not None]
    if parameter.envvar:
        facts.append(f"variable {parameter.envvar}")
    if parameter.default is not None:
        default = parameter.default
        facts.append(f"default {default.value if isinstance(default, Enum) else default!r}")
    # Sorted: those of --help come from a set.
    words = ", ".join(sorted([*parameter.opts, *parameter.secondary_opts]))
    return (words if option else parameter.metavar or parameter.name), ", ".join(facts)


# Dagster


def load_definitions() -> Definitions:
    """What Dagster loads, as the catalog is now: the module is run anew, and not kept."""
    spec = importlib.util.find_spec("nats3_dagster.definitions")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.defs


def definitions_tree(defs: Definitions) -> dict[str, Any]:
    """Assets, checks, jobs, sensors, schedules and resources."""
    graph, repository = defs.resolve_asset_graph(), defs.get_repository_def()
    return {
        "assets": {key.to_user_string(): _asset(graph.get(key)) for key in graph.get_all_asset_keys()},
        "checks": {
            key.to_user_string(): {
                "blocking": spec.blocking,
                "metadata": metadata_types(spec.metadata or {}),
            }
            for key in graph.asset_check_keys
            for spec in [graph.get_check_spec(key)]
        },
        "jobs": {name: _job(defs.resolve_job_def(name)) for name in repository.job_names},
        "sensors": {
            s.name: {
                "interval_s": s.minimum_interval_seconds,
                "default_status": s.default_status.value,
                "jobs": sorted(t.job_name for t in s.targets if not t.job_name.startswith("__")),
                "assets": sorted(k.to_user_string() for k in s.asset_selection.resolve(graph))
                if s.asset_selection
                else [],
            }
            for s in repository.sensor_defs
        },
        "schedules": {s.name: s.default_status.value for s in repository.schedule_defs},
        "resources": sorted(repository.get_top_level_resources()),
    }


def _asset(node: Any) -> dict[str, Any]:
    hours, backfill = node.partitions_def, node.backfill_policy
    return {
        "deps": sorted(key.to_user_string() for key in node.parent_keys),
        "group": node.group_name,
        "kinds": sorted(node.kinds),
        "external": node.is_external,
        "pools": sorted(node.pools or ()),
        "partitions": hours and f"{type(hours).__name__} {hours.fmt} {hours.timezone} end_offset {hours.end_offset}",
        "partitions_per_run": backfill and (backfill.max_partitions_per_run or "all"),
        "metadata": metadata_types(node.metadata),
        "tags": sorted(t for t in node.tags if "kind" not in t),
    }


def _job(job: Any) -> dict[str, Any]:
    ops = job.run_config_schema.config_type.fields["ops"].config_type.fields
    return {
        "tags": sorted(job.tags),
        "executor": job.executor_def.name,
        "assets": sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys),
        "checks": sorted(key.to_user_string() for key in job.asset_layer.asset_graph.asset_check_keys),
        "run_config": {
            name: {n: _field(f) for n, f in config.config_type.fields.items()}
            for name, op in ops.items()
            if (config := op.config_type.fields.get("config")) and hasattr(config.config_type, "fields")
        },
    }


def _field(field: Any) -> str:
    default = f", default {field.default_value!r}" if field.default_provided else ""
    return f"{_config_type(field.config_type)}{', required' if field.is_required else ''}{default}"


def _config_type(of: Any) -> str:
    if hasattr(of, "inner_type"):
        return f"{_config_type(of.inner_type)} ({of.kind.value.lower()})"
    if hasattr(of, "config_values"):
        return "|".join(sorted(of.config_values))
    return (of.given_name or of.key).removesuffix("SourceType")


def metadata_types(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Key to kind: `IntMetadataValue` is `Int`."""
    return {k: type(v).__name__.removesuffix("MetadataValue") for k, v in metadata.items()}
