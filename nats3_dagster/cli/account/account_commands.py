"""`nats3 account`: rules that give each stream of the account an archive."""

from typing import Annotated, Any

import typer

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.status import status
from nats3_dagster.bodies.accounts import CreateAccountRule
from nats3_dagster.cli.account import account_views as views
from nats3_dagster.cli.account.streams_options import RuleName
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, counted, print_text, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.request_body import FromJson, body_of
from nats3_dagster.cli.terminal.spec_options import Given, required_options, with_settings
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.accounts import Account, ChangedAccountRule, EndedRule, PlannedRule
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.spec_table import by_key, cleared
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
CreateBucket = Annotated[bool, typer.Option("--create-bucket", help="Create buckets that do not exist.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen with each stream, and change nothing.")]


@app.command()
@with_settings(AccountRule, but="name")
def create(
    context: typer.Context,
    given: Given,
    name: Annotated[str | None, typer.Argument(metavar="RULE", help="Name of the new rule.")] = None,
    create_bucket: CreateBucket = False,
    dry_run: DryRun = False,
    from_json: FromJson = None,
    output: Output = Format.table,
) -> None:
    """Give each stream of the account that the rule takes an archive of its own, also those that come later.

    `account_sensor` of Dagster's daemon makes them, within a tick; what a stream had before is captured as well."""
    fields = given | {"name": name, "create_bucket": create_bucket or None}
    required = {"name": "RULE", **required_options(AccountRule, but="name")}
    body = body_of(CreateAccountRule, context, from_json, fields, required)
    rule = body.rule()
    with Workspace(Settings.load()) as workspace:
        if dry_run:
            streams = rules.preview(workspace, rule, create_bucket=body.create_bucket)
            view = PlannedRule.of_preview(rule, streams, WORDS).plain()
        else:
            kept, streams = rules.create(workspace, rule, create_bucket=body.create_bucket)
            view = PlannedRule.of_kept(kept, streams, WORDS).plain()
    _show_plan(output, view)
    if dry_run:
        note("Nothing was changed")
        return
    note("Created. Within a tick account_sensor makes the archives, and their sensors capture what the streams have")
    note(reload_dagster(workspace.settings))


@app.command("set")
@with_settings(AccountRule, but="name", changes=True)
def set_(
    name: RuleName,
    given: Given,
    create_bucket: CreateBucket = False,
    dry_run: DryRun = False,
    output: Output = Format.table,
) -> None:
    """Change a rule. Settings of archives are given to those that the rule has, too; an archive whose stream the rule
    does not take any longer goes on by itself."""
    wanted = cleared(AccountRule, by_key(AccountRule, given))
    if not wanted:
        raise OperatorError("There is nothing to change", "Give a setting with its new value, like --exclude 'tmp*'")
    with Workspace(Settings.load()) as workspace:
        if dry_run:
            kept, streams = rules.preview_change(workspace, name, wanted, create_bucket=create_bucket)
            _show_plan(output, PlannedRule.of_kept(kept, streams, WORDS).plain())
            note("Nothing was changed")
            return
        done = rules.change(workspace, name, wanted, create_bucket=create_bucket)
    view = ChangedAccountRule.of_change(done, WORDS).plain()
    _show_plan(output, view)
    if view["changed"]:
        note(f"{counted(len(view['changed']), 'archive')} got the new settings")
    for one in view["failed"]:
        note(f"Archive {one['archive']} keeps its settings: {one['error']}")
    if view["failed"]:
        raise typer.Exit(1)


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All rules, the oldest first: of two that take one stream the older one has it."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with Workspace(settings) as workspace:
            return [Account.of(one, WORDS).plain() for one in status(workspace)]

    watched(watch, output, look, lambda found: show(output, found, views.LIST))


@app.command()
def get(name: RuleName, watch: Watch = None, output: Output = Format.table) -> None:
    """One rule: each stream of the account, its archive, what is not captured yet and how near to loss it is, or why it
    has none."""
    settings = Settings.load()

    def look() -> dict[str, Any]:
        with Workspace(settings) as workspace:
            (found,) = status(workspace, [name])
            return Account.of(found, WORDS).plain()

    watched(watch, output, look, lambda view: _show(output, view, views.STREAMS))


@app.command()
def delete(name: RuleName, yes: Yes = False, output: Output = Format.table) -> None:
    """End a rule. Its archives stay, and go on as they are; no stream gets one any more."""
    with Workspace(Settings.load()) as workspace:
        workspace.catalog.accounts.get(name)
        confirm(f"Rule {name} gives no stream an archive then; those that it made go on", yes)
        archives = rules.end(workspace, name)
        view = EndedRule(name=name, archives=archives).plain()
    show_one(output, view, {"deleted": name, "archives that go on": archives})
    note(reload_dagster(workspace.settings))


def _show_plan(output: Format, view: dict[str, Any]) -> None:
    _show(output, view, views.PLAN)


def _show(output: Format, view: dict[str, Any], columns: Columns) -> None:
    show_one(output, view, views.rule_lines(view))
    if output is Format.table and view["streams"]:
        print_text("")
        show(output, view["streams"], columns)
