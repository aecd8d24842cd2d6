"""Metrics: a measurement as families of Prometheus and OpenMetrics. Their names, labels and units are an interface.

Invariant: a counter whose labels are known begins at 0, so that its first increase is seen.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from nats3_dagster import __version__
from nats3_dagster.archive.captures.noting import KINDS
from nats3_dagster.archive.condition import SOURCE_STATES
from nats3_dagster.archive.measure import HOUR_STATES, ArchiveMeasure, ArchiveMeasures
from nats3_dagster.model import LOSSES, Count
from nats3_dagster.replay.measure import ATTEMPT_ENDS, REPLAY_STATES, Measurement
from nats3_dagster.views.output_metrics import output_metrics

# The levels of archive.loss, as numbers to compare with.
_LEVELS = {"ok": 0, "paused": 1, "warn": 1, "error": 2}
# Upper bounds of the sizes of objects, as nats3.size_class has them.
_SIZES = [*(str(4**n) for n in range(8, 16)), "+Inf"]


class Exposition(Collector):
    """A measurement that is `age_s` seconds old, as metric families."""

    def __init__(self, measured: Measurement, age_s: float = 0.0) -> None:
        self._measured, self._age_s = measured, age_s

    def encode(self, accept: str = "") -> tuple[bytes, str]:
        """The text and its media type: OpenMetrics where `accept`, a request's header, asks for it, else Prometheus'
        text format."""
        try:
            encoder, media_type = choose_encoder(accept)
        except TypeError:  # of a version that is no number
            encoder, media_type = choose_encoder("")
        return encoder(self), media_type

    def collect(self) -> Iterator[Metric]:
        measured = self._measured
        yield InfoMetricFamily("nats3_build", "The release that answers.", {"version": __version__})
        up = GaugeMetricFamily("nats3_up", "Whether a dependency answers.", labels=["dependency"])
        for dependency, answers in measured.up.items():
            up.add_metric([dependency], answers)
        yield up
        yield _gauge("nats3_scrape_age_seconds", "How old these numbers are.", self._age_s)
        yield _gauge("nats3_scrape_duration_seconds", "How long asking for these numbers took.", measured.seconds)
        if measured.archives is None:
            return
        totals = _Totals([*measured.archives.grown, *measured.replays])
        yield from _all_jobs(measured.archives, totals)
        yield from _states(measured.archives.archives)
        yield from _holdings(measured.archives.archives)
        names = [each.archive.name for each in measured.archives.archives]
        yield from _grown(names, totals)
        yield from _replays(names, totals)
        yield from output_metrics(measured.archives.outputs)


class _Totals:
    """Counts by archive, what is counted, and label."""

    def __init__(self, counts: Iterable[Count]) -> None:
        self._counts = {(count.archive, count.what, count.label): count.value for count in counts}
        self._all = Counter[tuple[str, str]]()
        for (_, what, label), value in self._counts.items():
            self._all[what, label] += value
            self._all[what, "*"] += value

    def of(self, archive: str, what: str, label: str = "") -> int:
        return self._counts.get((archive, what, label), 0)

    def all(self, what: str, *labels: str) -> int:
        """Of all archives, deleted ones too; without labels of all labels."""
        return sum(self._all[what, label] for label in labels or ("*",))


def _all_jobs(measures: ArchiveMeasures, totals: _Totals) -> Iterator[Metric]:
    jobs = CounterMetricFamily(
        "nats3_jobs", "Captures (store) and attempts of replays (load) that ended.", labels=["job_type", "status"]
    )
    jobs.add_metric(["store", "completed"], totals.all("captures"))
    jobs.add_metric(["store", "failed"], totals.all("failures"))
    jobs.add_metric(["load", "completed"], totals.all("attempts", "succeeded"))
    jobs.add_metric(["load", "failed"], totals.all("attempts", "failed", "lost"))
    yield jobs
    current = GaugeMetricFamily(
        "nats3_jobs_current", "Archives that are not paused (store) and replays that run (load).", labels=["job_type"]
    )
    current.add_metric(["store"], sum(not each.archive.paused for each in measures.archives))
    current.add_metric(["load"], totals.all("replays", "running"))
    yield current
    for name, text, unit, numbers in (
        (
            "nats3_nats_messages", "Messages captured from NATS (in) and published into it (out).", "",
            (totals.all("captured_messages"), totals.all("published_messages")),
        ),
        (
            "nats3_nats_bytes", "Subjects, headers and payloads of messages captured (in) and published (out).",
            "bytes", (totals.all("captured_bytes"), totals.all("published_bytes")),
        ),
        (
            "nats3_s3_objects", "Objects that replays read (in), and chunks and manifests that were put (out).", "",
            (totals.all("fetched_objects"), totals.all("chunks") + totals.all("seals")),
        ),
        (
            "nats3_s3_bytes", "Bytes of objects that replays read (in), and that were put (out).", "bytes",
            (totals.all("fetched_bytes"), totals.all("stored_bytes") + totals.all("seal_bytes")),
        ),
    ):  # fmt: skip
        family = CounterMetricFamily(name, text, labels=["direction"], unit=unit)
        for direction, number in zip(("in", "out"), numbers, strict=True):
            family.add_metric([direction], number)
        yield family


def _states(archives: Iterable[ArchiveMeasure]) -> Iterator[Metric]:
    """What the source says, and how far the archive is behind it: nothing of one that does not say it."""
    paused = _of_archive("nats3_archive_paused", "Whether the archive is paused.")
    up = _of_archive("nats3_archive_source_up", "Whether the stream is there as it should be, and answers.")
    source = _of_archive("nats3_archive_source_state", "The state of the stream: 1 for the one it is in.", "state")
    lag = _of_archive("nats3_archive_lag_messages", "Sequences that the stream has and the archive has not.")
    age = _of_archive("nats3_archive_lag_seconds", "Age of the oldest message that is not captured.")
    due = _of_archive("nats3_archive_max_age_seconds", "Age of the oldest message at which a capture is due.")
    gone = _of_archive(
        "nats3_archive_gone_messages", "Sequences that the stream deleted uncaptured, and no capture has recorded yet."
    )
    used = _of_archive(
        "nats3_archive_time_to_loss_ratio",
        "Share of the way to deletion that the oldest uncaptured message has gone, by the stream's nearest limit.",
    )
    level = _of_archive("nats3_archive_loss_level", "Danger of loss: 0 none, 1 a warning, 2 an error.")
    for each in archives:
        name, condition, loss = each.archive.name, each.condition, each.loss
        paused.add_metric([name], each.archive.paused)
        due.add_metric([name], each.archive.spec.max_age_s)
        up.add_metric([name], condition.source == "ok")
        for state in SOURCE_STATES:
            source.add_metric([name, state], condition.source == state)
        if condition.waiting is None or loss is None:
            continue
        lag.add_metric([name], condition.waiting.behind)
        age.add_metric([name], condition.waiting.behind_s if condition.waiting.behind else 0)
        gone.add_metric([name], loss.gone)
        used.add_metric([name], loss.used)
        level.add_metric([name], _LEVELS[loss.level])
    yield from (paused, up, source, due, lag, age, gone, used, level)


def _holdings(archives: Iterable[ArchiveMeasure]) -> Iterator[Metric]:
    messages = _of_archive("nats3_archive_messages", "Messages in the archive.")
    payload = _of_archive("nats3_archive_bytes", "Subjects, headers and payloads of the messages in the archive.")
    stored = _of_archive("nats3_archive_stored_bytes", "Size of the objects of the archive's chunks.")
    chunks = _of_archive("nats3_archive_chunks", "Chunks in the archive.")
    hours = _of_archive("nats3_archive_partitions", "Hours with messages, by state; open ones have not ended.", "state")
    missing = _of_archive("nats3_archive_missing_messages", "Sequences that are lost for good, by reason.", "reason")
    completed = _of_archive(
        "nats3_archive_last_success_timestamp_seconds", "When the newest capture that completed ended."
    )
    for each in archives:
        name = each.archive.name
        messages.add_metric([name], each.totals.messages)
        payload.add_metric([name], each.totals.payload_bytes)
        stored.add_metric([name], each.totals.stored_bytes)
        chunks.add_metric([name], each.totals.chunks)
        for state in HOUR_STATES:
            hours.add_metric([name, state], each.hours.get(state, 0))
        for reason in LOSSES:
            missing.add_metric([name, reason], each.missing.get(reason, 0))
        if each.completed_at is not None:
            completed.add_metric([name], each.completed_at)
    yield from (messages, payload, stored, chunks, hours, missing, completed)


def _grown(names: Iterable[str], totals: _Totals) -> Iterator[Metric]:
    captured = CounterMetricFamily(
        "nats3_archive_captured_messages", "Messages in chunks that were committed.", labels=["archive"]
    )
    captures = CounterMetricFamily("nats3_archive_captures", "Captures that completed.", labels=["archive"])
    failures = CounterMetricFamily("nats3_archive_failures", "Captures that failed.", labels=["archive", "kind"])
    lost = CounterMetricFamily(
        "nats3_archive_lost_messages", "Sequences that were recorded as lost.", labels=["archive", "reason"]
    )
    sizes = HistogramMetricFamily(
        "nats3_archive_chunk_bytes", "Sizes of the objects of chunks that were committed.", labels=["archive"],
        unit="bytes",
    )  # fmt: skip
    for name in names:
        captured.add_metric([name], totals.of(name, "captured_messages"))
        captures.add_metric([name], totals.of(name, "captures"))
        for kind in KINDS:
            failures.add_metric([name, kind], totals.of(name, "failures", kind))
        for reason in LOSSES:
            lost.add_metric([name, reason], totals.of(name, "lost", reason))
        upto, buckets = 0, list[tuple[str, float]]()
        for size in _SIZES:
            upto += totals.of(name, "chunks", size)
            buckets.append((floatToGoString(size), upto))
        sizes.add_metric([name], buckets, totals.of(name, "stored_bytes"))
    yield from (captured, captures, failures, lost, sizes)


def _replays(names: Iterable[str], totals: _Totals) -> Iterator[Metric]:
    states = _of_archive("nats3_replay_state", "Replays in each state.", "state")
    attempts = CounterMetricFamily(
        "nats3_replay_attempts", "Attempts of replays, by how they ended.", labels=["archive", "state"]
    )
    published = CounterMetricFamily(
        "nats3_replay_published_messages", "Messages that replays published.", labels=["archive"]
    )
    for name in names:
        for state in REPLAY_STATES:
            states.add_metric([name, state], totals.of(name, "replays", state))
        for state in ATTEMPT_ENDS:
            attempts.add_metric([name, state], totals.of(name, "attempts", state))
        published.add_metric([name], totals.of(name, "published_messages"))
    yield from (states, attempts, published)


def _of_archive(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["archive", *labels], unit=_unit(name))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value, unit=_unit(name))


def _unit(name: str) -> str:
    """The unit that a name ends with."""
    last = name.rpartition("_")[2]
    return last if last in ("seconds", "bytes", "ratio", "messages") else ""
