"""Messages as large as `max_payload` of a server may be, on the whole way: archived, verified, read, replayed,
exported."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.read import answers
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import TargetError
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.exports import Case
from nats3_dagster_tests.support.replays import archived, dry_run, replayed
from nats3_dagster_tests.support.wire import Wire

SIZE = 63 << 20


@pytest.fixture
def nats(nats_factory: NatsFactory) -> NatsServer:
    """The largest `max_payload` that NATS documents. Its answers to a test's own client have the payloads in base64."""
    return nats_factory(config="max_payload: 64MB\nmax_pending: 512MB")


@pytest.mark.slow
def test_messages_of_63_mb_come_back_byte_for_byte(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    payloads = [random.Random(1).randbytes(SIZE), bytes(SIZE), b"x"]
    wire.create_stream("EV", "ev.>", storage="memory")  # a file takes messages of 32 MiB at most
    wire.publish([(f"ev.{n}", b"", payload) for n, payload in enumerate(payloads)])
    archived(workspace, wire, "EV", bucket)
    archive = workspace.catalog.archives.get("a")
    assert [one.error for one in verify_chunks(workspace, chunks_to_verify(workspace, archive))] == [None] * 2
    for seq, payload in enumerate(payloads, 1):
        assert answers.get(workspace, "a", seq=seq).data == payload
    back = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))
    wire.create_stream("BACK", "back.>")
    with pytest.raises(TargetError, match=r"Stream BACK stores in files, where a server takes up to 33554397"):
        dry_run(workspace, back)
    wire.api("STREAM.DELETE.BACK")
    wire.create_stream("BACK", "back.>", storage="memory")
    done = replayed(workspace, back)
    assert (done.state, done.published) == ("succeeded", 3)
    for message, payload in zip(wire.messages("BACK"), payloads, strict=True):
        assert message.data == payload
    case = Case(tmp_path, workspace.settings.store.of(bucket), bucket)
    case.chunks = [*workspace.catalog.chunks.select(archive)]
    case.run(decode="raw", format="parquet")
    files = sorted(case.out.rglob("*.parquet"))
    assert [data for file in files for data in pq.read_table(file)["data"].to_pylist()] == payloads
