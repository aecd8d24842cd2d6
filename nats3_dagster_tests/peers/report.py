"""Tables and the picture of a comparison: medians of the rounds, ratios within a round."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.peers.meter import Usage
from nats3_dagster_tests.peers.trial import Trial
from nats3_dagster_tests.support.pictures import draw_bars

Rounds = Sequence[Sequence[Trial]]
Value = Callable[[Trial], float | None]


def middle(trials: Sequence[Trial], value: Value) -> float | None:
    """Returns the median of a figure over the rounds that have it."""
    values = [number for trial in trials if (number := value(trial)) is not None]
    return median(values) if values else None


def ratio(trials: Sequence[Trial], base: Sequence[Trial], value: Value) -> float | None:
    """Returns the median of the ratios to another tool, each within a round."""
    pairs = [(value(trial), value(other)) for trial, other in zip(trials, base, strict=True)]
    ratios = [number / of for number, of in pairs if number is not None and of]
    return median(ratios) if ratios else None


def by_tool(rounds: Rounds) -> dict[str, list[Trial]]:
    """Returns the trials of each tool, in the order of the rounds."""
    trials_by_tool: dict[str, list[Trial]] = {}
    for trials in rounds:
        for trial in trials:
            trials_by_tool.setdefault(trial.tool, []).append(trial)
    return trials_by_tool


def print_report(rounds: Rounds, base: str) -> None:
    """Prints three tables of one size: archives, replays, and what came back. `base`: the tool of the ratios."""
    tools = by_tool(rounds)
    size, messages = rounds[0][0].size, rounds[0][0].messages
    title = f"{messages:,} messages of {size:,} B, rounds: {len(rounds)}"
    _print_usage(f"archive: {title}", tools, base, lambda trial: trial.archive, lambda trial: trial.archived_per_s)
    _print_usage(f"replay: {title}", tools, base, lambda trial: trial.replay, lambda trial: trial.replayed_per_s)
    print(f"ratio: to {base}, within a round")
    print("µs: processor time a message; stores: Postgres and the S3 server\n")
    _print_returned(f"what came back: {title}", tools)
    for trials in tools.values():
        for reason in dict.fromkeys(trial.failed for trial in trials if trial.failed):
            print(f"{trials[0].tool}: {reason}")


def _print_usage(
    title: str,
    tools: Mapping[str, Sequence[Trial]],
    base: str,
    usage: Callable[[Trial], Usage | None],
    rate: Value,
) -> None:
    columns = ("msg/s", "ratio", "µs tool", "µs NATS", "µs stores", "peak MB")
    is_archive = title.startswith("archive")
    table = new_table(title, "tool", *columns, *(["bytes each"] if is_archive else []))
    for name, trials in tools.items():

        def cost(figure: Callable[[Usage], float], trials: Sequence[Trial] = trials) -> float | None:
            return middle(trials, lambda trial: figure(used) / trial.messages * 1e6 if (used := usage(trial)) else None)

        of_base = ratio(trials, tools[base], rate) if base in tools else None
        peak = middle(trials, lambda trial: used.peak_mb if (used := usage(trial)) else None)
        each = middle(trials, lambda trial: trial.stored_bytes / trial.messages if trial.stored_bytes else None)
        texts = [_text(middle(trials, rate), 0), _text(of_base, 2)]
        texts += [_text(cost(lambda used: used.tool_s), 1), _text(cost(lambda used: used.nats_s), 1)]
        texts += [_text(cost(lambda used: used.stores_s), 1), _text(peak, 0)]
        table.add_row(name, *texts, *([_text(each, 0)] if is_archive else []))
    print_table(table)


def _print_returned(title: str, tools: Mapping[str, Sequence[Trial]]) -> None:
    columns = {
        "returned": "returned",
        "lost": "lost",
        "doubled": "doubled",
        "different": "different",
        "other subject": "other_subject",
        "out of order": "out_of_order",
    }
    table = new_table(title, "tool", *columns)
    for name, trials in tools.items():
        values = [
            middle(trials, lambda trial, field=field: getattr(trial.comparison, field, None))
            for field in columns.values()
        ]
        table.add_row(name, *(_text(value, 0) for value in values))
    print_table(table)


def one_line(trial: Trial) -> str:
    """Returns a line for people who wait for the end of a run."""
    rates = f"archived {_text(trial.archived_per_s, 0)}, replayed {_text(trial.replayed_per_s, 0)} a second"
    return f"{trial.size} B {trial.tool}: {trial.failed or rates}"


def _text(value: float | None, digits: int) -> str:
    digits = 0 if value is not None and value >= 1000 else digits
    return "-" if value is None else f"{value:,.{digits}f}"


def draw_report(file: Path, sizes: Mapping[int, Rounds]) -> None:
    """Draws the rates of archives and replays, a group of bars for each tool."""
    groups: dict[str, dict[str, float]] = {}
    for size, rounds in sizes.items():
        for name, trials in by_tool(rounds).items():
            bars = groups.setdefault(name.replace("-", "-\n"), {})
            bars[f"archive, {size} B"] = middle(trials, lambda trial: trial.archived_per_s) or 0
            bars[f"replay, {size} B"] = middle(trials, lambda trial: trial.replayed_per_s) or 0
    draw_bars(file, "messages a second", groups)
