"""`nats3`: the commands, each by the place where it is defined, and how a command line is run."""

import atexit
import gc
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from nats3_dagster.cli import exit_status
from nats3_dagster.cli.global_options import Format, GlobalOptions, environment, split_options
from nats3_dagster.cli.loading import Lazy, LazyGroup
from nats3_dagster.cli.terminal.progress import shown_progress
from nats3_dagster.errors import OperatorError
from nats3_dagster.version import __version__

_CLI = "nats3_dagster.cli"
_DATA, _HERE = "Archives and replays", "This installation"
# Commands that need pyarrow are in a module of their own: it takes as long to import as everything else.
COMMANDS = {
    "store": Lazy(
        f"{_CLI}.store.store_commands:app",
        "Archives: continuous captures of streams into buckets.",
        _DATA,
        {
            "create": Lazy(
                f"{_CLI}.store.store_create:create",
                "Create an archive. Nothing is captured yet: see `nats3 store run`.",
            ),
            "delete": Lazy(
                f"{_CLI}.store.store_delete:delete",
                "Delete an archive from the catalog. Its objects stay unless --purge is given.",
            ),
            "sweep": Lazy(
                f"{_CLI}.store.store_delete:sweep",
                "Remove objects of deleted chunks once the grace period is over.",
            ),
            "expire": Lazy(
                f"{_CLI}.store.keep_commands:expire",
                "Remove the hours that an archive does not keep any longer, by its settings keep and keep_bytes.",
            ),
            "copy": Lazy(
                f"{_CLI}.store.copy_command:copy",
                "Copy what is missing in the other buckets of an archive, and remove there what its first bucket lost.",
            ),
            "apply": Lazy(
                f"{_CLI}.store.apply_command:apply",
                "Create and change archives, and rules for the account, as files declare them.",
            ),
            "export": Lazy(
                f"{_CLI}.store.apply_command:export", "Print archives as a file that `nats3 store apply` takes."
            ),
            "claim": Lazy(
                f"{_CLI}.store.claim_command:claim",
                "Make an archive the owner of its folder in its bucket, copies and former copies, even if another one "
                "owns it now.",
            ),
            "set": Lazy(f"{_CLI}.store.set_command:set_", "Change settings of an archive, for future captures."),
            "seal": Lazy(
                f"{_CLI}.chunk.proof_commands:seal",
                "Seal the hours that have ended and are complete: a manifest beside their chunks proves it.",
            ),
        },
    ),
    "load": Lazy(
        f"{_CLI}.load.load_commands:app",
        "Replays: archived messages published into NATS.",
        _DATA,
        {
            "create": Lazy(
                f"{_CLI}.load.load_create:create",
                "Replay archived messages into NATS: nothing lost, nothing doubled.",
                epilog="The changes to headers, times and sequences: docs/replays.md.",
            ),
            "progress": Lazy(
                f"{_CLI}.load.load_progress:progress",
                "Show the progress of a replay, once or, with --watch, until it has ended.",
            ),
        },
    ),
    "export": Lazy(
        f"{_CLI}.exports.export_commands:app",
        "Exports: files for other systems, from each hour of an archive.",
        _DATA,
    ),
    "chunk": Lazy(
        f"{_CLI}.chunk.chunk_commands:app",
        "Chunks: the objects that hold an archive's messages.",
        _DATA,
        {
            "fetch": Lazy(
                f"{_CLI}.chunk.fetch_command:fetch",
                "Fetch the Parquet object of a chunk, proven by size, hash and identity.",
            ),
            "verify": Lazy(
                f"{_CLI}.chunk.proof_commands:verify",
                "Fetch every chunk and manifest, and compare them with the catalog: hash, range, counts, messages.",
            ),
            "compact": Lazy(
                f"{_CLI}.chunk.compact_command:compact",
                "Merge the small chunks of an archive's sealed hours, or of some: the same messages in fewer objects.",
            ),
            "adopt": Lazy(
                f"{_CLI}.chunk.adopt_command:adopt",
                "Adopt absent messages of an archive from objects in its bucket that no chunk lists.",
            ),
            "repair": Lazy(
                f"{_CLI}.chunk.proof_commands:repair",
                "Verify chunks and manifests.",
            ),
        },
    ),
    "hold": Lazy(
        f"{_CLI}.holds.hold_commands:app",
        "Holds: hours and sequences of an archive that nothing removes.",
        _DATA,
    ),
    "history": Lazy(
        f"{_CLI}.store.keep_commands:history",
        "List what happened to an archive, the newest first, with who did it and the next step of a failure.",
        _DATA,
    ),
    "message": Lazy(
        f"{_CLI}.reads.message_commands:app",
        "Messages of an archive: single ones, or all of a selection.",
        _DATA,
        {
            "cat": Lazy(
                f"{_CLI}.reads.cat_command:cat",
                "Print all messages of a selection, in stream order; in json one per line.",
            ),
            "erase": Lazy(f"{_CLI}.reads.erase_command:erase", "Erase messages from an archive for good."),
        },
    ),
    "query": Lazy(
        f"{_CLI}.reads.query_command:query",
        "Run SQL over archives with DuckDB; only chunks that may match are fetched.",
        _DATA,
    ),
    "table": Lazy(f"{_CLI}.tables.table_commands:app", "Tables: archives as Iceberg tables, for other engines.", _DATA),
    "account": Lazy(
        f"{_CLI}.account.account_commands:app",
        "Rules that give each stream of the account an archive, and the account made again from them.",
        _DATA,
        {
            "restore": Lazy(
                f"{_CLI}.account.restore_command:restore",
                "Make the streams of an account again from their archives, as they were at a time, with consumers.",
            ),
            "drill": Lazy(
                f"{_CLI}.account.drill_command:drill",
                "Restore the newest hour of each archive into a nats-server of its own, and compare each message.",
            ),
        },
    ),
    "stream": Lazy(
        f"{_CLI}.installation.stream_commands:app",
        "Streams: list, inspect and create them, make one again from its archive, archive a backup.",
        _DATA,
        {
            "import": Lazy(
                f"{_CLI}.installation.import_command:import_",
                "Make an archive of a backup that `nats stream backup` took, of a server of any release.",
            ),
            "restore": Lazy(
                f"{_CLI}.installation.restore_command:restore",
                "Make a stream again from its archive, with the sequences, times, subjects and headers that it had.",
            ),
        },
    ),
    "doctor": Lazy(
        f"{_CLI}.installation.doctor_command:doctor",
        "Check NATS, Postgres, the store, Java, Spark and Dagster, and name the fix for each problem.",
        _HERE,
    ),
    "dagster": Lazy(
        f"{_CLI}.installation.dagster_command:app", "Dagster: what your own instance needs for archives.", _HERE
    ),
    "serve": Lazy(
        f"{_CLI}.installation.serve_command:serve",
        "Serve the HTTP API, and with --nats the archives as a JetStream domain.",
        _HERE,
    ),
    "token": Lazy(f"{_CLI}.installation.token_command:app", "Tokens of the HTTP API.", _HERE),
    "catalog": Lazy(
        f"{_CLI}.catalog.catalog_commands:app",
        "The catalog in Postgres: dumped, loaded, or made again from a bucket.",
        _HERE,
    ),
    "config": Lazy(
        f"{_CLI}.installation.config_command:app",
        "Settings: their values and sources, and nats3.toml.",
        _HERE,
    ),
    "metrics": Lazy(
        f"{_CLI}.installation.metrics_command:metrics",
        "Print every metric in Prometheus' text format, as /metrics does.",
        _HERE,
    ),
    "migrate": Lazy(
        f"{_CLI}.installation.dev_commands:migrate", "Bring the catalog in Postgres to this release's schema.", _HERE
    ),
    "permissions": Lazy(
        f"{_CLI}.installation.permissions_command:permissions",
        "Print exactly the permissions that a NATS user needs: a block for the configuration of a nats-server.",
        _HERE,
    ),
    "connect-server": Lazy(
        f"{_CLI}.installation.connect_command:connect_server",
        "Run the Spark Connect server until it is stopped: captures and replays then start no JVM of their own.",
        _HERE,
    ),
    "demo": Lazy(
        f"{_CLI}.installation.dev_commands:demo",
        "Archive this host's log lines, replay them into another stream, and compare both message by message.",
        _HERE,
    ),
    "dev": Lazy(
        f"{_CLI}.installation.dev_commands:app",
        "NATS, Postgres, S3 and the Dagster UI on this machine, under .nats3/.",
        _HERE,
    ),
}

# Commands on archives, replays, chunks and streams; and those of them that a server answers with --server.
_DATA_COMMANDS = (
    "store",
    "load",
    "message",
    "query",
    "export",
    "table",
    "chunk",
    "hold",
    "history",
    "account",
    "stream",
    "metrics",
    "permissions",
)
_JOB_COMMANDS = ("create", "list", "get", "pause", "resume", "delete")
_REMOTE = {(group, name) for group in ("store", "load") for name in _JOB_COMMANDS} | {("chunk", "list")}
_REMOTE |= {("load", "progress")} | {("message", name) for name in ("get", "next", "last", "ref")}

app = typer.Typer(
    name="nats3",
    cls=LazyGroup,
    help="Long-term memory for NATS JetStream: archives in object storage, and replays.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"nats3 {__version__}")
        raise typer.Exit


def complete_context(incomplete: str) -> list[str]:
    """The contexts that begin so."""
    from nats3_dagster.settings.nats_context import context_names

    return [name for name in context_names() if name.startswith(incomplete)]


@app.callback()
def nats3(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and logs. May stand anywhere.")] = False,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            autocompletion=complete_context,
            help="Server and login of this context of the nats CLI. May stand anywhere.",
        ),
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option("--output", "-o", help="Output format (setting output_format). May stand anywhere."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Ask this nats3 serve, not the catalog (setting server_url); none: the catalog. May stand anywhere.",
        ),
    ] = None,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="No bars, and no lines of progress. May stand anywhere.")
    ] = False,
) -> None:
    """Shows in `--help` the options that stand before a command; `main` has taken care of them."""


def root() -> LazyGroup:
    """`nats3` with all its commands."""
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    group.add_lazy(COMMANDS)
    return group


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (`sys.argv` by default); its exit status: 0, 1 (it failed), 2 (usage), 130 (interrupted).

    Global options may stand anywhere, because one adds them to a command that has just failed."""
    taken = split_options(sys.argv[1:] if argv is None else argv, COMMANDS)
    # The last collection of a process that ends looks at every object of every library: after a capture's imports that
    # is 0.5 s of processor time for nothing.
    atexit.register(gc.freeze)

    def run() -> object:
        if taken.error:
            raise taken.error
        _check_here(taken)
        return root().main(args=taken.words, prog_name="nats3", standalone_mode=False)

    with environment(taken.variables), shown_progress(taken.progress):
        return exit_status.run(run, debug=taken.debug)


def _check_here(taken: GlobalOptions) -> None:
    """Raises OperatorError where a server is to be asked for what only this machine can do."""
    group, *rest = taken.path or ("",)
    words = set(taken.words)
    no_command = not rest and group in ("store", "load", "message", "export", "table", "chunk", "stream", "account")
    if group not in _DATA_COMMANDS or no_command or taken.path in _REMOTE or words & {"-h", "--help"}:
        return
    from nats3_dagster.settings.sources import find_values

    url = find_values().get("server_url")
    if url and url.value != "none":
        raise OperatorError(
            f"nats3 {' '.join(taken.path)} works with NATS, Postgres and the store itself: it cannot ask a server "
            f"({url.source})",
            "Run it where the server runs, or here with --server none",
        )
