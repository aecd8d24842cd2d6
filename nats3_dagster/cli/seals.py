"""`nats3 store seal`: manifests for hours that have ended, without Dagster.

The rule kept here: the same as the sensor does, and as often as one likes.
"""

import time

from nats3_dagster.cli.options import ArchiveName, Output
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.terminal import Format, Size, show_one


def seal(name: ArchiveName, output: Output = Format.table) -> None:
    """Seal the hours that have ended and are complete: a manifest beside their chunks proves it.

    The sensor of the archive does this by itself; here it is done now."""
    from nats3_dagster.archive.seal import last_sequence, newest_closed, seal_hours
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        archive = catalog.archives.get(name)
        first = next(hour_of(t.begins_ns) for t in catalog.archives.totals() if t.archive.id == archive.id)
        closed = newest_closed(time.time_ns())
        bound = last_sequence(catalog, link, archive, closed)
        hours = catalog.seals.unsealed(archive, first, closed, bound=bound, limit=1_000_000)
        with bar(f"seal {name}", "hours") as told:
            sealed = []
            for done in seal_hours(catalog, settings.store, archive, hours):
                sealed.append(done)
                told(len(sealed), len(hours))
        held = [s for s in catalog.seals.select(archive) if s.valid]
    ended = max(0, (hour_start(closed) - hour_start(first)) // HOUR_NS + 1)
    view = {
        "archive": name, "sealed_now": len(sealed), "sealed": len(held), "not_complete": ended - len(held),
        "messages": sum(s.messages for s in held), "manifest_bytes": sum(s.stored_bytes for s in held),
        "last_sealed": held[-1].hour if held else None,
    }  # fmt: skip
    show_one(output, view, view | {"manifest_bytes": Size(view["manifest_bytes"])})
