"""Questions on a terminal, for what options do not say: each answer is checked at once, by the rules of the archive."""

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from nats3_dagster.archive.lifecycle.job_names import archive_name
from nats3_dagster.archive.source import streams
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.base import time_of
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.workspace import Workspace

Interactive = Annotated[bool, typer.Option("--interactive", "-i", help="Ask on the terminal for missing options.")]
Fields = dict[str, Any]
_STREAM: Fields = {"name": "a", "stream": "S", "bucket": "bucket"}


def ask_archive(workspace: Workspace | None, given: Fields) -> Fields:
    """The fields of a new archive: those given, and answers. `workspace`: to offer what there is. Raises OperatorError
    without a terminal, or when the summary is not confirmed."""
    _check_terminal()
    fields = dict(given)
    names = _choices(workspace, lambda work: [report.state.incarnation.stream for report in streams.report(work)])
    buckets = _choices(workspace, lambda work: sorted({archive.spec.bucket for archive in work.catalog.archives.all()}))
    _fill(fields, "name", "Name of the archive", archive_name)
    _fill(fields, "stream", "Stream to archive", _is_field("stream", names), choices=names)
    if fields.get("subjects") is None:
        fields["subjects"] = [_text("Subjects, a NATS filter", _subjects, default=">")]
    _fill(fields, "bucket", "Bucket for the chunks", _is_field("bucket"), choices=buckets)
    _fill(fields, "prefix", "Key prefix, like team/logs", _is_field("prefix"), is_optional=True)
    _confirm("This creates an archive", fields)
    return fields


def ask_replay(workspace: Workspace | None, given: Fields) -> Fields:
    """The fields of a new replay, as `ask_archive` has them of an archive."""
    _check_terminal()
    fields = dict(given)
    if fields.get("archive") is None and fields.get("bucket") is None:
        names = _choices(workspace, lambda work: [archive.name for archive in work.catalog.archives.all()])
        _fill(fields, "archive", "Archive to replay", archive_name, choices=names)
    _fill(fields, "read_subject", "Archived subjects, a NATS filter", _subjects, default=">")
    filter_ = fields["read_subject"]
    _fill(fields, "write_subject", "Subjects to publish to, like replay.>", lambda text: _target(filter_, text))
    for name, question in (
        ("from_time", "From this time on, as -2h; empty: from the beginning"),
        ("to_time", "Up to before this time; empty: to the end"),
    ):
        _fill(fields, name, question, parse_time, is_optional=True)
        if fields.get(name):
            fields[name] = time_of(parse_time(fields[name]))
    _confirm("This creates a replay", fields)
    return fields


def pick(question: str, names: Sequence[str]) -> str:
    """One of the names. Raises OperatorError without a terminal, or if there is none."""
    _check_terminal()
    if not names:
        raise OperatorError("There is nothing to choose from")
    import questionary

    return str(questionary.select(question, choices=list(names), output=_screen()).unsafe_ask())


def _fill(
    fields: Fields,
    name: str,
    question: str,
    check: Callable[[str], object],
    *,
    choices: Sequence[str] = (),
    default: str = "",
    is_optional: bool = False,
) -> None:
    """Ask for a field that is not given."""
    if fields.get(name) is None:
        fields[name] = _text(question, check, choices=choices, default=default, is_optional=is_optional) or None


def _text(
    question: str,
    check: Callable[[str], object],
    *,
    choices: Sequence[str] = (),
    default: str = "",
    is_optional: bool = False,
) -> str:
    import questionary  # 0.6 s

    def checked(text: str) -> bool | str:
        if is_optional and not text:
            return True
        try:
            check(text)
        except Nats3Error as error:
            whole = error.text_in(WORDS)  # it has one line; a longer text shows its end
            return whole if len(whole) < shutil.get_terminal_size().columns else error.what
        return True

    if choices:
        asked = questionary.autocomplete(
            f"{question}:", choices=list(choices), default=default, validate=checked, output=_screen()
        )
    else:
        asked = questionary.text(f"{question}:", default=default, validate=checked, output=_screen())
    return str(asked.unsafe_ask())


def _confirm(what: str, fields: Fields) -> None:
    for name, value in fields.items():
        if value is not None:
            note(f"  {name}: {', '.join(value) if isinstance(value, list) else value}")
    if not typer.confirm(f"{what}. Go on?", err=True):
        raise OperatorError("It was not confirmed: nothing was changed")


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise OperatorError("There is no terminal to ask on", "Leave out --interactive, and give all as options")


def _screen() -> Any:
    """Questions are on stderr: stdout has the result alone."""
    from prompt_toolkit.output import create_output

    return create_output(stdout=sys.stderr)


def _choices(workspace: Workspace | None, look: Callable[[Workspace], list[str]]) -> list[str]:
    """Returns the choices, none if the source does not answer: the command itself will say why."""
    with suppress(Nats3Error):
        return look(workspace) if workspace else []
    return []


def _is_field(name: str, known: Sequence[str] = ()) -> Callable[[str], object]:
    def check(text: str) -> None:
        fields: Fields = {**_STREAM, name: text}
        ArchiveSpec(**fields)
        if known and text not in known:
            raise OperatorError(f"There is no {name} {text}", f"There is {', '.join(known[:5])}")

    return check


def _subjects(text: str) -> None:
    Selection(subjects=(text,))


def _target(filter_: str, text: str) -> None:
    ReplaySpec("a", text, Selection(subjects=(filter_,))).transform()
