"""`nats3 dev resync`: partition status from the catalog, after Dagster's own storage was lost."""

from nats3_dagster.cli.options import Output
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.terminal import Columns, Format, note, show

_LIST: Columns = {
    "ARCHIVE": lambda r: r["archive"],
    "CHUNKS": lambda r: r["chunks"],
    "SEALED": lambda r: r["sealed"],
    "REPLAY": lambda r: r["replay"],
    "UNKNOWN": lambda r: len(r["unknown"]),
}


def resync(output: Output = Format.table) -> None:
    """Tell Dagster once more what the catalog holds: partitions are right again after its storage was lost.

    DAGSTER_HOME names the instance; without it, the one of `nats3 dev`."""
    from nats3_dagster.defs.events import resync as run
    from nats3_dagster.settings import Settings

    with bar("resync", "hours") as told:
        found = run(Settings.load(), lambda archive, done, total: told(done, total))
    items = [
        {"archive": r.archive, "chunks": r.chunks, "sealed": r.sealed, "replay": r.replay, "unknown": list(r.unknown)}
        for r in found
    ]
    show(output, items, _LIST)
    for item in items:
        if item["unknown"]:
            note(
                f"Dagster has {', '.join(item['unknown'][:5])}{' and more' if len(item['unknown']) > 5 else ''} of "
                f"{item['archive']} as captured, and the catalog has no chunk of it: wipe these partitions in the UI"
            )
