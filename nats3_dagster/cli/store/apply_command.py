"""`nats3 store apply` and `nats3 store export`: archives, and rules for the account, as a file declares them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
import yaml

from nats3_dagster.archive.declared import apply as applying
from nats3_dagster.archive.declared import apply_accounts as of_accounts
from nats3_dagster.archive.declared.apply import Applied, Planned
from nats3_dagster.archive.declared.apply_accounts import AppliedRule, RuleStep
from nats3_dagster.archive.declared.entries import read
from nats3_dagster.archive.declared.existing import declared_now
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.store.rule_steps import ended_text, failed_rules, note_rule, rule_parts, rule_rows
from nats3_dagster.cli.store.store_views import change_lines, consumer_to_delete
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, counted, print_text, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.request_body import read_document
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.declared import (
    AppliedArchive,
    AppliedExportStep,
    AppliedPlan,
    AppliedRuleStep,
    PlannedArchive,
    PlannedExportStep,
)
from nats3_dagster.errors import Nats3Error
from nats3_dagster.exports import apply as of_exports
from nats3_dagster.exports.apply import AppliedExport, PlannedExport
from nats3_dagster.model import ArchiveSpec, ExportSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

_DONE = {"create": "Created", "change": "Changed", "remove": "Deleted"}


def _what(view: dict[str, Any]) -> Prose:
    """Returns the text of a plan for an archive, as a table has it."""
    if view["refused"]:
        return Prose(view["refused"])
    if "what" in view:  # of a rule
        return Prose(view["what"])
    if view["action"] == "remove":
        return Prose(f"{counted(view['chunks'], 'chunk')} ({counted(view['messages'], 'message')})")
    spec = ExportSpec if "/" in view["name"] else ArchiveSpec
    return Prose("; ".join(f"{name}: {text}" for name, text in change_lines(spec, view["changes"]).items()))


PLAN: Columns = {
    "ARCHIVE": lambda a: a["name"],
    "ACTION": lambda a: "refused" if a["refused"] else a["action"],
    "STREAM": lambda a: a["stream"],
    "WHAT": _what,
}


def _rows(archives: Sequence[dict[str, Any]], exports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each archive, followed by its exports."""
    rows: list[dict[str, Any]] = []
    for archive in archives:
        rows.append(archive)
        rows += [
            export | {"name": f"{archive['name']}/{export['name']}", "stream": None, "chunks": 0, "messages": 0}
            for export in exports
            if export["archive"] == archive["archive"]
        ]
    return rows


def apply(
    file: Annotated[
        list[str],
        typer.Option(
            "--file", "-f", metavar="FILE|-", help="Archives in YAML, TOML or JSON. May be given several times."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and change nothing.")] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Delete archives, and end rules, that are in none of the files. Objects and archives of rules stay.",
        ),
    ] = False,
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Create and change archives, and rules for the account, as files declare them. It shows the difference, and asks;
    applying again does nothing."""
    declarations = read([read_document(name) for name in file], prune=prune)
    for sentence in declarations.left_out:
        note(sentence)
    with Workspace(Settings.load()) as workspace:
        planned = applying.plan(workspace, declarations.archives, prune=prune and declarations.lists_archives)
        views = [PlannedArchive.of(one, WORDS).plain() for one in planned]
        exports = of_exports.plan(workspace, planned, prune=prune)
        rules = of_accounts.plan(workspace, declarations.accounts, planned, prune=prune and declarations.lists_accounts)
        if output is Format.table:
            rows = _rows(views, [PlannedExportStep.of(one, WORDS).plain() for one in exports])
            show(output, rows + rule_rows(rules), PLAN)
        done: list[Applied] = []
        done_exports: list[AppliedExport] = []
        done_rules: list[AppliedRule] = []
        try:
            applying.check(planned)
            of_exports.check(exports)
            of_accounts.check(rules)
            if not dry_run and _confirmed(planned, exports, rules, yes):
                for one in applying.perform(workspace, planned):
                    done.append(one)
                    _note(one)
                for export in of_exports.perform(workspace, exports):
                    done_exports.append(export)
                    _note_export(export)
                for rule in of_accounts.perform(workspace, rules):
                    done_rules.append(rule)
                    note_rule(rule)
        finally:
            if output is not Format.table:
                _show_document(output, (planned, done), (exports, done_exports), (rules, done_rules), dry_run)
    if dry_run:
        note("Nothing was changed: this was a dry run")
    if any(one.done for one in (*done, *done_exports, *done_rules)):
        note(reload_dagster(workspace.settings))
    _raise_failed(done, done_exports, done_rules)


def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ARCHIVE", help="Names of archives; all of them without any.")
    ] = None,
) -> None:
    """Print archives as a file that `nats3 store apply` takes, and would find unchanged; their exports are in it, and
    without names the rules for the account, whose archives are left out."""
    with Workspace(Settings.load()) as workspace:
        declared = declared_now(workspace, names or None)
    print_text(yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=1000))


def _confirmed(
    planned: Sequence[Planned], exports: Sequence[PlannedExport], rules: Sequence[RuleStep], yes: bool
) -> bool:
    """True if there is something to do. Raises OperatorError unless it is confirmed."""
    counts = {action: [one for one in planned if one.action == action] for action in ("create", "change", "remove")}
    parts = [f"{action}s {counted(len(some), 'archive')}" for action, some in counts.items() if some]
    for action in counts:
        if some := [one for one in exports if one.action == action]:
            parts.append(f"{action}s {counted(len(some), 'export')}")
    parts += rule_parts(rules)
    if not parts:
        note("Nothing to do: all archives are as declared")
        return False
    text = f"This {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"
    for one in counts["remove"]:
        assert one.archive
        chunks, messages = counted(one.chunks, "chunk"), counted(one.messages, "message")
        spec = one.archive.spec
        consumer = consumer_to_delete(spec.name, spec.stream, spec.durable, keep=False)
        text += f". Removed: {one.name} with {chunks} ({messages}), whose objects stay{consumer}"
    if removed := [f"{one.archive}/{one.name}" for one in exports if one.action == "remove"]:
        text += f". Removed: {', '.join(removed)}, whose files stay"
    confirm(text + ended_text(rules), yes)
    return True


def _note(one: Applied) -> None:
    if one.done:
        by_other = " by another process meanwhile" if one.by_other else ""
        note(f"{_DONE[one.planned.action]} {one.planned.name}{by_other}")
    elif one.error:
        note(f"{one.planned.name}: {one.error.text_in(WORDS)}")
    if one.warning:
        note(f"Warning: {one.planned.name}: {one.warning}")


def _note_export(one: AppliedExport) -> None:
    name = f"{one.planned.archive}/{one.planned.name}"
    if one.done:
        note(f"{_DONE[one.planned.action]} {name}")
    elif one.error:
        note(f"{name}: {one.error.text_in(WORDS)}")


def _show_document(
    output: Format,
    archives: tuple[Sequence[Planned], Sequence[Applied]],
    exports: tuple[Sequence[PlannedExport], Sequence[AppliedExport]],
    rules: tuple[Sequence[RuleStep], Sequence[AppliedRule]],
    dry_run: bool,
) -> None:
    """Show each plan with what was done of it."""
    # By the step itself: a file may call an archive as another one is called.
    of_step = {id(one.planned): one for one in archives[1]}
    of_export = {id(one.planned): one for one in exports[1]}
    of_rule = {id(one.planned): one for one in rules[1]}
    document = AppliedPlan(
        dry_run=dry_run,
        archives=[AppliedArchive.of_step(one, of_step.get(id(one)), WORDS) for one in archives[0]],
        exports=[AppliedExportStep.of_step(one, of_export.get(id(one)), WORDS) for one in exports[0]],
        accounts=[AppliedRuleStep.of_step(one, of_rule.get(id(one)), WORDS) for one in rules[0]],
    )
    show_one(output, document.plain(), {})


def _raise_failed(done: Sequence[Applied], exports: Sequence[AppliedExport], rules: Sequence[AppliedRule]) -> None:
    """Raises the error of what was not done, of the kind of the first."""
    failed = [(one.planned.name, one.error) for one in done if not one.done]
    failed += [(f"{one.planned.archive}/{one.planned.name}", one.error) for one in exports if not one.done]
    failed += failed_rules(rules)
    if not failed:
        return
    first = failed[0][1] or Nats3Error("It was not done")
    names = ", ".join(name for name, _ in failed)
    raise type(first)(f"Not done: {names}. {first.what}", first.hint)
