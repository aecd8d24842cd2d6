"""A trial: one seed of one fault, with a stream, an archive and a target of its own."""

import random
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster_tests.faults import jobs, judge
from nats3_dagster_tests.faults.clocks import CLOCK
from nats3_dagster_tests.faults.forks import Ended, Job, Request
from nats3_dagster_tests.faults.judge import Archived, Finding
from nats3_dagster_tests.faults.topology import BUCKET, Topology
from nats3_dagster_tests.faults.workload import Key, Sent, Truth, make_messages, publish
from nats3_dagster_tests.support.wire import Message, Wire

# A run of a capture or a replay ends within this; and so often it is run again once the fault is over.
RUN_S, RUNS = 90.0, 5
ARCHIVE = "events"
# The error of a fault point.
INJECTED = "InjectedFault"
# What a replay answers that is run again after its success.
DONE = "has succeeded"


class Trial:
    """What a fault works with. `with Trial(servers, seed) as trial: ...`; then `findings` say what was wrong."""

    def __init__(self, servers: Topology, seed: int, *, store: str = "", cluster: bool = False) -> None:
        """`store`: `s3` or `file`; by default the seed chooses. `cluster`: streams are on the three servers, R3."""
        self.servers, self.seed, self.random = servers, seed, random.Random(seed)
        self.truth, self.findings = Truth(), list[Finding]()
        self.stream, self.target = f"EV{seed}", f"BACK{seed}"
        self.prefix, self.back = f"ev{seed}", f"back{seed}"
        self.cluster = servers.cluster if cluster else []
        # Alive in the cluster; the trial's own client asks there.
        self.alive: list[NatsServer] = list(self.cluster)
        self._login: dict[str, str] = {}
        self._store = store or self.random.choice(("file", "file", "file", "s3"))
        self._stack = ExitStack()
        self.replay_id = ""
        # The database of the Iceberg catalog, for faults of tables.
        self.lake = ""
        # Messages that are published at a time.
        self.window = 500
        # Whether the process that `held` started last got to its fault point.
        self.is_held = False
        # What the processes reach through a proxy.
        self.proxied: tuple[str, ...] = ()
        # How each process ended, for a report.
        self.log: list[str] = []

    def __enter__(self) -> "Trial":
        self.database = self._stack.enter_context(self.servers.database())
        nats = ",".join(s.url for s in self.cluster) or self.servers.nats.url
        self.environment = {
            "NATS3_NATS_URL": nats,
            "NATS3_POSTGRES_URL": self.servers.postgres.url(self.database),
            jobs.FORKS: str(self.servers.forks),
        }
        self.use_store()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.servers.repair()
        with suppress(OSError, AssertionError), self.wire() as wire:
            for name in (self.stream, self.target):
                wire.try_api(f"STREAM.DELETE.{name}")
        if self._store == "file":
            shutil.rmtree(self._folder, ignore_errors=True)
        else:
            self._empty_bucket()
        self._stack.close()

    def _empty_bucket(self) -> None:
        """Another trial of this seed has another catalog, and would find its folders owned."""
        pages = self.servers.s3_client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        for key in [item["Key"] for page in pages for item in page.get("Contents", ())]:
            self.servers.s3_client.delete_object(Bucket=BUCKET, Key=key)

    # Where things are

    def use_store(self, url: str = "") -> None:
        """Write objects into the trial's own folder, or into `url`; or into S3."""
        if self._store == "s3":
            s3 = self.servers.s3
            self.environment |= {
                "NATS3_STORE_URL": "s3://",
                "AWS_ENDPOINT_URL_S3": s3.endpoint,
                "AWS_REGION": s3.region,
                "AWS_ACCESS_KEY_ID": s3.access_key,
                "AWS_SECRET_ACCESS_KEY": s3.secret_key,
            }
            return
        url = url or f"file://{self.servers.folder / f'store-{self.seed}'}"
        self._folder = self.servers.folder.__class__(urlsplit(url).path)
        (self._folder / BUCKET).mkdir(parents=True, exist_ok=True)
        self.environment["NATS3_STORE_URL"] = url

    def through_proxy(self, *names: str) -> None:
        """From now on the processes reach `nats`, `postgres` or `s3` through its proxy."""
        self.proxied = names
        for name in names:
            if name == "s3":
                self.environment["AWS_ENDPOINT_URL_S3"] = self.servers.s3_proxy.endpoint
            elif name == "nats":
                self.environment["NATS3_NATS_URL"] = f"nats://127.0.0.1:{self.servers.nats_proxy.port}"
            else:
                direct = f":{self.servers.postgres.port}/"
                self.environment["NATS3_POSTGRES_URL"] = self.environment["NATS3_POSTGRES_URL"].replace(
                    direct, f":{self.servers.postgres_proxy.port}/"
                )

    def set_clock(self, hours: str = "", every_s: float = 0.05) -> None:
        """From now on the clock of new processes is off by these hours, by the next of them every so often."""
        self.environment[CLOCK] = f"{every_s}:{hours}" if hours else ""

    def use_nats(self, server: NatsServer, **login: str) -> None:
        """The streams are on this server. `login`: of the trial's own client, as CONNECT names it."""
        self.alive, self.window, self._login = [server], 50, login
        self.environment["NATS3_NATS_URL"] = server.url

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        with self.servers.wire(self.alive, **self._login) as wire:
            yield wire

    def fetch(self, bucket: str, key: str) -> bytes:
        """An object, past the code under test. Raises LookupError."""
        if self._store == "file":
            try:
                return (self._folder / bucket / key).read_bytes()
            except FileNotFoundError:
                raise LookupError(key) from None
        try:
            return self.servers.s3_client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except self.servers.s3_client.exceptions.NoSuchKey:
            raise LookupError(key) from None

    def overwrite(self, bucket: str, key: str, data: bytes | None) -> None:
        """Put other bytes under a key, or none."""
        if self._store == "file":
            path = self._folder / bucket / key
            path.unlink() if data is None else path.write_bytes(data)
        elif data is None:
            self.servers.s3_client.delete_object(Bucket=bucket, Key=key)
        else:
            self.servers.s3_client.put_object(Bucket=bucket, Key=key, Body=data)

    def stored_keys(self) -> list[str]:
        """Of all objects of the archive, ascending."""
        if self._store == "file":
            root = self._folder / BUCKET
            return sorted(str(path.relative_to(root)) for path in (root / self.stream).rglob("*.*") if path.is_file())
        listing = self.servers.s3_client.get_paginator("list_objects_v2")
        pages = listing.paginate(Bucket=BUCKET, Prefix=f"{self.stream}/")
        return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))

    @property
    def is_file_store(self) -> bool:
        return self._store == "file"

    @property
    def folder(self) -> Path:
        """Of a store of files."""
        return self._folder

    def live_objects(self) -> list[tuple[str, str]]:
        """Bucket and key of each live chunk, in the order of the stream."""
        with self.servers.admin(database=self.database) as connection:
            return [(row[5], row[6]) for row in connection.execute(judge.CHUNKS, (ARCHIVE,))]

    def exists(self, bucket: str, key: str) -> bool:
        try:
            return bool(self.fetch(bucket, key))
        except LookupError:
            return False

    def keys(self, bucket: str, prefix: str) -> set[str]:
        """The keys that begin with it, past the code under test."""
        if self._store == "file":
            root = self._folder / bucket
            found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
            return {key for key in found if key.startswith(prefix)}
        pages = self.servers.s3_client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {entry["Key"] for page in pages for entry in page.get("Contents", ())}

    # The workload

    def make_stream(self, count: int = 700, **config: Any) -> None:
        """The stream with so many messages, and its archive, which has nothing yet."""
        self.make_stream_alone(count, **config)
        self.must(jobs.create, ArchiveSpec(ARCHIVE, self.stream, BUCKET, prefix=self.stream))

    def make_stream_alone(self, count: int, **config: Any) -> None:
        """The stream with so many messages, and no archive of it."""
        self._create(self.stream, f"{self.prefix}.>", **config)
        self.publish(count)

    def make_empty_stream(self, **config: Any) -> None:
        self._create(self.stream, f"{self.prefix}.>", **config)

    def publish(self, count: int) -> list[Sent]:
        sent = make_messages(self.random, self.prefix, count, len(self.truth.messages))
        with self.wire() as wire:
            publish(wire, self.stream, sent, self.truth, self.window)
        return sent

    def make_target(self, **config: Any) -> None:
        self._create(self.target, f"{self.back}.>", allow_direct=True, **config)

    def _create(self, name: str, subject: str, **config: Any) -> None:
        """Make a stream; a cluster that has just started answers nothing for a while."""
        if self.cluster:
            config = {"num_replicas": 3, **config}
        until, answer = time.monotonic() + 60, dict[str, Any]()
        while True:
            with suppress(OSError), self.wire() as wire:
                request = {"name": name, "subjects": [subject], "storage": "file", **config}
                if "error" not in (answer := wire.try_api(f"STREAM.CREATE.{name}", **request)):
                    return
            assert time.monotonic() < until, answer
            time.sleep(0.1)

    # Processes

    def start(self, work: Callable[..., Any], *arguments: Any, fault: str = "") -> Job:
        return Job(self.servers.forks, Request(work, arguments, {**self.environment, "NATS3_FAULT": fault}))

    def run(self, work: Callable[..., Any], *arguments: Any, fault: str = "", timeout_s: float = RUN_S) -> Ended:
        began = time.monotonic()
        ended = self.start(work, *arguments, fault=fault).wait(timeout_s)
        return self.note(f"{work.__name__}{f' [{fault}]' if fault else ''}, {time.monotonic() - began:.1f} s", ended)

    def must(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What it returns; the trial fails when it does not succeed."""
        ended = self.run(work, *arguments)
        assert ended.ok, (work.__name__, str(ended))
        return ended.value

    @contextmanager
    def held(self, point: str, work: Callable[..., Any], *arguments: Any, passes: int = 1) -> Iterator[Job]:
        """The process is started, and held at its fault point while the body runs; then it goes on. It may end before
        it gets there."""
        file = self.servers.folder / f"held-{self.seed}-{self.random.getrandbits(32)}"
        job = self.start(work, *arguments, fault=f"{point}:hold={file}:{passes}")
        until = time.monotonic() + 20
        while not file.exists() and time.monotonic() < until:
            try:
                job.peek()
            except EOFError:
                break
            time.sleep(0.005)
        self.is_held = file.exists()
        self.log.append(f"{work.__name__} {'is held at' if self.is_held else 'did not get to'} {point}")
        try:
            yield job
        finally:
            file.with_name(f"{file.name}.go").touch()

    def end(self, job: Job, name: str, timeout_s: float = RUN_S) -> Ended:
        return self.note(name, job.wait(timeout_s))

    def note(self, name: str, ended: Ended) -> Ended:
        """Log how it ended. An end that nobody foresaw is a finding: it does not say what to do."""
        self.log.append(f"{name}: {ended}")
        if ended.error == "Hung" or (ended.error.startswith("Defect") and INJECTED not in ended.error):
            self.findings.append(Finding("unclear", 1, f"{name}: {ended}"))
        return ended

    def finish(self, work: Callable[..., Any], *arguments: Any, refusals: Sequence[str] = ()) -> bool:
        """Once the fault is over: run it again until it succeeds. An error that holds one of the `refusals` is as good
        an end as a success: it says truly why it cannot go on. True if it succeeded."""
        self.servers.repair()
        ended = Ended(None, "never run")
        for _ in range(RUNS):
            ended = self.run(work, *arguments)
            if ended.ok:
                return True
            if any(text in ended.text for text in refusals):
                return False
        self.findings.append(Finding("stuck", 1, f"{work.__name__} again: {ended}"))
        return False

    # The judge

    def archived(self) -> Archived:
        with self.servers.admin(database=self.database) as connection:
            return judge.read_archive(connection, ARCHIVE, self.fetch)

    def judge_archive(self) -> None:
        """After a capture that succeeded."""
        self.blame(judge.judge_archive(self.archived(), self.truth))

    def judge_seals(self) -> None:
        """After all hours were sealed."""
        with self.servers.admin(database=self.database) as connection:
            self.blame(judge.judge_seals(connection, ARCHIVE, self.fetch))

    def judge_target(
        self, replay_id: str, *, ordered: bool = True, kept: Collection[Key] | None = None, **more: Any
    ) -> None:
        """After a replay that succeeded: all that the archive has is in the target; of a target that removes messages,
        what it has `kept`."""
        keys = set(self.archived_keys() if kept is None else kept)
        expected = [(key, message) for key, message in self.truth.messages.items() if key in keys]
        stored = self.stored()
        rename = lambda subject: self.back + subject.removeprefix(self.prefix)  # noqa: E731
        self.blame(judge.judge_target(stored, replay_id, expected, ordered=ordered, **{"subject": rename, **more}))

    def archived_keys(self) -> list[Key]:
        """Of all messages that the archive has, in the order of the stream."""
        there = self.archived().messages
        return [key for key in self.truth.messages if key in there]

    def stored(self) -> list[Message]:
        """What the target has. Bytes of a subject that are not UTF-8 are lone surrogates."""
        with self.wire() as wire:
            return [
                m if "\ufffd" not in m.subject else m._replace(subject=wire.exact_subject(self.target, m.seq))
                for m in list(wire.messages(self.target))
            ]

    def blame(self, findings: list[Finding]) -> None:
        """Findings after a success are silent as well."""
        self.findings += findings
        if findings:
            self.findings.append(Finding("silent", 1, f"called a success: {findings[0].text}"))

    def expect(self, holds: bool, kind: judge.Kind, text: str) -> None:
        """A finding of one case, unless it holds."""
        if not holds:
            self.findings.append(Finding(kind, 1, text))

    # The usual course

    def capture(self, fault: str = "", **more: Any) -> Ended:
        return self.run(jobs.capture, ARCHIVE, fault=fault, **more)

    def finish_capture(self, *, adopt: bool = False, refusals: Sequence[str] = ()) -> bool:
        done = self.finish(jobs.capture, ARCHIVE, adopt, refusals=refusals)
        if done:
            self.judge_archive()
        return done

    def begin_replay(self, **spec: Any) -> str:
        return self.must(jobs.begin, self.replay_spec(**spec))

    def replay_spec(self, **spec: Any) -> ReplaySpec:
        selection = Selection(subjects=(f"{self.prefix}.>",))
        return ReplaySpec(ARCHIVE, f"{self.back}.>", **{"selection": selection, **spec})

    def finish_replay(self, replay_id: str, *, refusals: Sequence[str] = (), **more: Any) -> bool:
        done = self.finish(jobs.replay, replay_id, refusals=(*refusals, DONE))
        if done or DONE in self.log[-1]:
            self.judge_target(replay_id, **more)
        return done

    def acknowledged(self) -> list[Key]:
        """Of all messages of the stream, in its order."""
        return list(self.truth.messages)
