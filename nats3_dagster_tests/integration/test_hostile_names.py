"""Names that people give and that are legal in NATS: of subjects through filters, of streams through a capture and a
replay. Compared with what a server makes of them."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection, SeqRange
from nats3_dagster.subjects import check_filter, decoded, matches
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.wire import Wire

# Tokens that look like wildcards, like what nats3 shows for bytes, and like parts of other languages.
TOKENS = [b"a", b"*", b">", b"a*", b"*a", b"a*b", b">>", b"a>", b"%FF", b"\xff", b"\xed\xa0\x80", b"$a", b"A", b"0"]
TOKENS += [b"{{1}}", b"$1", b"'", b'"', b"\\", b"%", b"_", b"\x0b", *(c.encode() for c in "\u00e9\u2028\U0001f600")]
token = st.sampled_from(TOKENS) | st.binary(min_size=1, max_size=3).filter(lambda raw: not {*b". \t\r\n\f\0"} & {*raw})
subject = st.lists(token, min_size=1, max_size=3).map(lambda tokens: b"w." + b".".join(tokens))
NAMES = ["orders:eu", "\u00dcber=1+1", "a&b<c", 'q"uote', "back`tick$", "zero\u200bwidth", "\U0001f600"]
# Older servers take the name for a format, and spoil the subjects that acknowledge its messages.
NAMES = [*NAMES, pytest.param("%FF", marks=pytest.mark.needs_nats("2.15"))]


def of_filter(texts: Sequence[bytes]) -> tuple[str, ...]:
    """Those of the texts that are filters."""
    filters: list[str] = []
    for text in texts:
        try:
            filters.append(check_filter(text.decode()))
        except (UnicodeDecodeError, OperatorError):
            continue
    return tuple(filters)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(subject, min_size=1, max_size=8), st.lists(subject, min_size=1, max_size=4))
def test_filters_take_what_a_server_takes(
    wire: Wire, nats: NatsServer, subjects: list[bytes], asked: list[bytes]
) -> None:
    """By a consumer, by the leader, and by our own matching: of several filters, which overlap, and of each alone."""
    wire.try_api("STREAM.DELETE.W")
    wire.create_stream("W", "w.>", storage="memory")
    wire.publish([(name, b"", b"") for name in subjects])
    filters = of_filter([*asked, *subjects[:2]])
    with Link(nats.options) as link:
        incarnation, everything = stream_state(link, "W").incarnation, SeqRange(1, len(subjects))
        for chosen in (filters, *((one,) for one in filters)):
            expected = [n for n, name in enumerate(subjects, 1) if any(matches(f, decoded(name)) for f in chosen)]
            read = read_batches(nats.options, ReadSpec(incarnation, everything, chosen))
            assert [seq for batch in read for seq in batch.column("seq").to_pylist()] == (
                expected if chosen else [*range(1, len(subjects) + 1)]
            )
            if len(chosen) == 1:
                held = link.call(first_held, incarnation, everything, chosen)
                assert held == (expected[0] if expected else None)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_any_name(workspace: Workspace, wire: Wire, bucket: str, name: str) -> None:
    wire.create_stream(name, "ev.>")
    wire.create_stream(f"{name}-back", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(20)])
    create(workspace, ArchiveSpec("a", name, bucket))
    archived(workspace, wire, name, bucket)
    done = replayed(workspace, ReplaySpec("a", "back.>", Selection(subjects=("ev.>",))))
    assert (done.state, done.published) == ("succeeded", 20)
    assert [m.data for m in wire.messages(f"{name}-back")] == [b"%d" % n for n in range(20)]


def test_a_subject_is_replayed_by_the_text_that_is_shown(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "edge.>", "w.>")
    names = [b"edge.\xff\xfe\xf0", b"w.a*b", b"w.axb", b"w.a>", b"edge.x"]
    wire.publish([(name, b"", name) for name in names])
    for mistaken in ("w.b*", "w.>b"):
        with pytest.raises(OperatorError, match="no subject that .* takes.*wildcards as whole tokens only"):
            create(workspace, ArchiveSpec("c", "EV", bucket, subjects=(mistaken,)))
    archived(workspace, wire, "EV", bucket)
    for number, (shown, name) in enumerate(
        zip(["edge.%FF%FE%F0", "w.a*b", "w.a>"], [*names[:2], names[3]], strict=True)
    ):
        wire.create_stream(f"BACK{number}", f"back.{number}")
        done = replayed(workspace, ReplaySpec("a", f"back.{number}", Selection(subjects=(shown,))))
        assert (done.state, done.published) == ("succeeded", 1)
        assert [m.data for m in wire.messages(f"BACK{number}")] == [name]
    archived(workspace, wire, "EV", bucket, "d", subjects=("w.a*b",), prefix="d")
    (chunk,) = workspace.catalog.chunks.select(workspace.catalog.archives.get("d"))
    assert (chunk.meta.messages, chunk.meta.covers) == (1, SeqRange(1, 5))
