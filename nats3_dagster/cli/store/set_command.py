"""`nats3 store set`: other thresholds, another level of compression, other subjects of what comes."""

from typing import Annotated

import typer

from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.store.store_views import change_lines
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.spec_options import Given, with_settings
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.archives import ChangedArchive
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.spec_table import by_key, cleared
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


@with_settings(ArchiveSpec, changes=True)
def set_(
    name: ArchiveName,
    given: Given,
    create_bucket: Annotated[
        bool, typer.Option("--create-bucket", help="Create buckets of copies that do not exist.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Change settings of an archive, for future captures. Sensors follow at their next tick, captures with their next
    hour; captured messages stay unchanged. `--subject '>'` is every subject."""
    wanted = cleared(ArchiveSpec, by_key(ArchiveSpec, given))
    if not wanted:
        raise OperatorError("There is nothing to change", "Give a setting with its new value, like --max-age 60s")
    with Workspace(Settings.load()) as workspace:
        done = change(workspace, name, wanted, create_bucket=create_bucket)
        view = ChangedArchive.of_changes(jobs.aged(workspace, done.after), WORDS, done.differences).plain()
    changes = view["changes"]
    show_one(output, view, {"archive": name, **change_lines(ArchiveSpec, changes)})
    if not changes:
        note(f"Nothing was changed: archive {name} has this already")
        return
    if any(one.field == "subjects" for one in done.differences):
        note(f"The new subjects count from sequence {done.after.former_filters[-1].last_seq + 1:,} of the stream on")
    note("Changed. Sensors follow at their next tick, captures with their next hour")
    note(reload_dagster(workspace.settings))
