"""`nats3 permissions`: what a NATS user needs to be allowed."""

from typing import Annotated

import typer

from nats3_dagster.archive.account.permissions import to_follow, to_restore_account
from nats3_dagster.archive.permissions import Permissions, configuration, names_here, to_capture
from nats3_dagster.archive.restore.permissions import to_restore
from nats3_dagster.archive.served.permissions import check_domain, to_serve
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Format, print_text, show_one
from nats3_dagster.documents.installation import Permissions as PermissionsDocument
from nats3_dagster.errors import OperatorError
from nats3_dagster.replay.planning.permissions import to_replay
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def permissions(
    name: Annotated[
        str | None,
        typer.Argument(metavar="ARCHIVE", help="Name of the archive.", autocompletion=completing.archives),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="RULE", help="For a rule for the account, in place of an archive."),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", metavar="NAME", help="For serve --nats with this domain, in place of an archive."),
    ] = None,
    write_subject: Annotated[
        str | None,
        typer.Option("--write-subject", metavar="SUBJECT", help="Also replay to these subjects, as load create does."),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="STREAM", help="The stream that captures the replayed messages.")
    ] = None,
    create_stream: Annotated[bool, typer.Option("--create-stream", help="Replays may create that stream.")] = False,
    restore: Annotated[
        str | None,
        typer.Option(
            "--restore", metavar="STREAM", help="Also restore the stream, under this name; of a rule only that: '*'."
        ),
    ] = None,
    only_replay: Annotated[
        bool, typer.Option("--only-replay", help="Only permissions for replays, none for captures.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Print exactly the permissions that a NATS user needs: a block for the configuration of a nats-server."""
    if (write_subject is None) != (into is None):
        raise OperatorError("A replay has subjects and a stream", "Give both --write-subject and --into, or neither")
    if (only_replay or create_stream) and write_subject is None:
        raise OperatorError("Nothing says where replays go", "Give --write-subject and --into")
    if [name, account, domain].count(None) != 2:
        raise OperatorError(
            "Permissions are for one archive, for one rule, or for a domain", "Give ARCHIVE, --account or --domain"
        )
    with Workspace(Settings.load()) as workspace:
        names = names_here(workspace)
        if domain is not None:
            if write_subject or restore is not None:
                raise OperatorError("A domain is read only", "Give the name of an archive")
            _show(output, to_serve(check_domain(domain), names))
            return
        if account is not None:
            rule = workspace.catalog.accounts.get(account).rule
            if write_subject:
                raise OperatorError("A rule replays nothing", "Give the name of an archive")
            if restore not in (None, "*"):
                raise OperatorError("A rule restores all its streams", "Give --restore '*'")
            _show(output, to_restore_account(names) if restore else to_follow(rule, names))
            return
        assert name is not None
        spec = workspace.catalog.archives.get(name).spec
    needed = Permissions((), ()) if only_replay else to_capture(spec, names)
    if write_subject is not None and into is not None:
        needed = needed | to_replay(spec.stream, write_subject, into, names, create=create_stream)
    if restore is not None:
        needed = needed | to_restore(spec.stream, restore, names)
    _show(output, needed)


def _show(output: Format, needed: Permissions) -> None:
    if output is Format.table:
        print_text(configuration(needed))
        return
    view = PermissionsDocument.of(needed).plain()
    show_one(output, view, view)
