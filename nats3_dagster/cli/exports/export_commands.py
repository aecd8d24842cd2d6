"""`nats3 export`: files for other systems, made of each sealed hour of an archive. Declare, look at, run, delete."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from nats3_dagster.bodies.exports import CreateExport
from nats3_dagster.cli.exports import export_views as views
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.processes import export_hours
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.store.store_views import change_lines
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, Size, counted, show, show_one, text_of
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.request_body import FromJson, body_of
from nats3_dagster.cli.terminal.spec_options import Given, required_options, with_settings
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.exports import (
    ChangedExport,
    ClaimedPlace,
    DeclaredExport,
    DeletedExport,
    Export,
    ExportDetail,
    ExportedHour,
    PlannedHour,
)
from nats3_dagster.errors import Nats3Error, OperatorError, StoreError
from nats3_dagster.exports import status
from nats3_dagster.exports.hours import select_hours, state_of, states
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.spec_table import by_key, cleared
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
ExportName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the export.", autocompletion=completing.exports)
]


@app.command()
@with_settings(ExportSpec, but="name")
def create(
    context: typer.Context,
    archive: ArchiveName,
    name: ExportName,
    given: Given,
    from_json: FromJson = None,
    output: Output = Format.table,
) -> None:
    """Declare an export. Its sensor in Dagster exports each hour when it is sealed; see also `nats3 export run`."""
    from nats3_dagster.exports import declare  # it imports NATS, Arrow and the store's client

    body = body_of(CreateExport, context, from_json, given, required_options(ExportSpec, but="name"))
    if body.name not in (None, name):
        raise OperatorError(f"The document names the export {body.name}, and the command {name}", "Give one name")
    with Workspace(Settings.load()) as workspace:
        made = declare.create(workspace, archive, body.spec(name))
        _note_owner(workspace, made)
    view = DeclaredExport.of_listed(made).plain()
    show_one(output, view, views.export_lines(view))
    note(f"Declared. To export what is sealed now: {Next.RUN_EXPORT(archive=made.archive.name, export=name).command}")
    note(reload_dagster(workspace.settings))


@app.command("list")
def list_(
    archive: Annotated[
        str | None,
        typer.Argument(
            metavar="ARCHIVE", help="Of this archive; of all without it.", autocompletion=completing.archives
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """All exports: what they have made, and how many of their hours are due and failed."""
    with Workspace(Settings.load()) as workspace:
        items = [Export.of(*one).plain() for one in states(workspace, archive)]
    show(output, items, views.LIST)


@app.command()
def get(archive: ArchiveName, name: ExportName, output: Output = Format.table) -> None:
    """One export: what is declared, and how many hours are done, due and failed."""
    view = _status(archive, name)
    show_one(output, view, views.export_lines(view))


@app.command()
def hours(archive: ArchiveName, name: ExportName, output: Output = Format.table) -> None:
    """The hours of an export: done, due (sealed, and not exported as it is), failed, changed (and not sealed again
    since its export), or retired (chunks were deleted after a replay, and the files do not have all of it)."""
    show(output, _status(archive, name)["hours"], views.HOURS)


@app.command()
def run(
    archive: ArchiveName,
    name: ExportName,
    hour: Hours = None,
    first: Annotated[
        str | None,
        typer.Option("--from-hour", metavar="YYYY-MM-DD-HH:00", help="Hours that are due from this one on ..."),
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to-hour", metavar="YYYY-MM-DD-HH:00", help="... up to this one, which is included.")
    ] = None,
    over_retired: Annotated[
        bool,
        typer.Option(
            "--over-retired",
            help="With --hour: export the rest of an hour whose chunks were deleted after a replay.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the hours, and export nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Export now: the hours that are due, or those named by --hour, exported before or not. Exporting an hour again
    gives the same files."""
    if over_retired and not hour:
        raise OperatorError("--over-retired is for hours that are named", "Name them with --hour")
    if hour and (first or last):
        raise OperatorError("--hour and --from-hour or --to-hour exclude each other", "Give hours, or a range of them")
    with Workspace(Settings.load()) as workspace:
        of, export, chosen = select_hours(
            workspace, archive, name, hours=hour or (), first=first, last=last, over_retired=over_retired
        )
    if dry_run:
        show(output, [PlannedHour.of(one).plain() for one in chosen], views.PLANNED)
        note(f"Nothing was exported: this was a dry run of {counted(len(chosen), 'hour')}")
        return
    if not chosen:
        note(f"Nothing is due: export {export.name} of archive {of.name} has every sealed hour")
        show(output, [], views.RUN)
        return
    results: list[dict[str, Any]] = []
    try:
        names = [one.hour for one in chosen]
        for result in export_hours(workspace.settings, of.name, export.name, names, over_retired=over_retired):
            results.append(ExportedHour.of(result).plain())
    except (Nats3Error, KeyboardInterrupt):
        if results:  # these hours are recorded
            show(output, results, views.RUN)
        raise
    show(output, results, views.RUN)
    _note_undecoded(results)


@app.command("set")
@with_settings(ExportSpec, but="name", changes=True)
def set_(archive: ArchiveName, name: ExportName, given: Given, output: Output = Format.table) -> None:
    """Change settings of an export, for hours that are exported from then on. `--subject '>'` is every subject; an
    empty text takes --schema, --key and --column back."""
    from nats3_dagster.exports import declare  # it imports NATS, Arrow and the store's client

    if not given:
        raise OperatorError("There is nothing to change", "Give a setting with its new value, like --max-undecoded 10")
    wanted = cleared(ExportSpec, by_key(ExportSpec, given))
    with Workspace(Settings.load()) as workspace:
        done = declare.change(workspace, archive, name, wanted)
    view = ChangedExport.of(done.archive.name, done.after, done.differences).plain()
    changes = view["changes"]
    show_one(output, view, {"export": f"{done.archive.name}/{name}"} | change_lines(ExportSpec, changes))
    if not changes:
        note(f"Nothing was changed: export {name} has this already")
        return
    run = Next.RUN_EXPORT(archive=done.archive.name, export=name).command
    note(
        "Changed, for hours that are exported from now on. What was exported stays as it is; to export an hour "
        f"again: {run} --hour HOUR"
    )


@app.command()
def delete(archive: ArchiveName, name: ExportName, yes: Yes = False, output: Output = Format.table) -> None:
    """Delete the declaration of an export. Its files stay."""
    from nats3_dagster.exports import declare  # it imports NATS, Arrow and the store's client

    with Workspace(Settings.load()) as workspace:
        of, export = status.find(workspace, archive, name)
        confirm(
            f"This deletes export {export.name} of archive {of.name}; the files at {export.spec.destination} stay", yes
        )
        gone = declare.delete(workspace, archive, name)
    show_one(
        output,
        DeletedExport.of(gone).plain(),
        {
            "deleted": f"{of.name}/{name}",
            "hours exported": gone.totals.hours,
            "files kept": gone.totals.files,
            "size": Size(gone.totals.bytes),
        },
    )
    note(reload_dagster(workspace.settings))


@app.command("claim")
def take_over(archive: ArchiveName, name: ExportName, yes: Yes = False, output: Output = Format.table) -> None:
    """Make an export the owner of its destination, where another one wrote before: one of an archive that was deleted,
    or of another catalog. Files stay, and each hour that is exported from now on replaces the former files of that
    hour."""
    from nats3_dagster.exports import places  # it imports NATS, Arrow and the store's client

    with Workspace(Settings.load()) as workspace:
        of, export = status.find(workspace, archive, name)
        owner = places.other_owner(workspace, of, export)
        if owner is None:
            note(f"Nothing was changed: no other export owns {export.spec.destination}")
            show_one(output, ClaimedPlace.of(of.name, name, None).plain(), {"export": f"{of.name}/{name}"})
            return
        confirm(
            f"{places.foreign_text(owner, export.spec.destination)}. That one is refused from now on, wherever it "
            "runs: stop it first",
            yes,
        )
        taken = places.take_over(workspace, of, export)
    claimed = ClaimedPlace.of(of.name, name, taken)
    former = claimed.former
    show_one(
        output,
        claimed.plain(),
        {
            "export": f"{of.name}/{name}",
            "taken over from": former and f"{former.archive}/{former.name}",
            "hours with its files": claimed.former_hours,
        },
    )
    if claimed.former_hours:
        note("Each of these hours is replaced when this export makes it; the files of the others stay where they are")


def _note_owner(workspace: Workspace, made: status.Listed) -> None:
    """Say that files of another export are there; the export is refused until it takes them over."""
    from nats3_dagster.exports import places
    from nats3_dagster.steps import Next

    try:
        owner = places.other_owner(workspace, made.archive, made.export)
    except StoreError as error:
        note(f"Whether another export writes there is not known: {error.what}")
        return
    if owner:
        step = Next.TAKE_OVER_PLACE(archive=made.archive.name, export=made.export.name)
        note(f"{places.foreign_text(owner, made.export.spec.destination)}. {step.worded(WORDS)}")


def _status(archive: str, name: str) -> dict[str, Any]:
    with Workspace(Settings.load()) as workspace:
        return ExportDetail.of_hours(*state_of(workspace, archive, name)).plain()


def _note_undecoded(results: Sequence[dict[str, Any]]) -> None:
    if undecoded := sum(one["undecoded"] for one in results):
        note(
            f"{text_of(undecoded)} messages did not decode: they and the reasons are in the files of undecoded messages"
        )
