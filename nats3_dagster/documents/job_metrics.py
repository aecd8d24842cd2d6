"""The metrics of a look itself, and of all archives and replays together. Names, labels and units are an interface."""

from nats3_dagster.documents.metric_scopes import Jobs, Scrape
from nats3_dagster.documents.metric_table import COUNTER, GAUGE, Row, Table, Values, by_label


def _in_out(in_: float, out: float) -> Values:
    return {("in",): in_, ("out",): out}


SCRAPE = Table[Scrape](
    labels=(),
    label_values=lambda scrape: (),
    rows=(
        Row(
            "nats3_up",
            "Whether a dependency answers.",
            GAUGE,
            lambda scrape: by_label(scrape.measured.up, lambda name: scrape.measured.up[name]),
            labels=("dependency",),
        ),
        Row("nats3_scrape_age_seconds", "How old these numbers are.", GAUGE, lambda scrape: scrape.age_s),
        Row(
            "nats3_scrape_duration_seconds",
            "How long asking for these numbers took.",
            GAUGE,
            lambda scrape: scrape.measured.seconds,
        ),
    ),
)

JOBS = Table[Jobs](
    labels=(),
    label_values=lambda jobs: (),
    rows=(
        Row(
            "nats3_jobs",
            "Captures (store) and attempts of replays (load) that ended.",
            COUNTER,
            lambda jobs: {
                ("store", "completed"): jobs.totals.all("captures"),
                ("store", "failed"): jobs.totals.all("failures"),
                ("load", "completed"): jobs.totals.all("attempts", "succeeded"),
                ("load", "failed"): jobs.totals.all("attempts", "failed", "lost"),
            },
            labels=("job_type", "status"),
        ),
        Row(
            "nats3_jobs_current",
            "Archives that are not paused (store) and replays that run (load).",
            GAUGE,
            lambda jobs: {
                ("store",): sum(not each.archive.paused for each in jobs.archives),
                ("load",): jobs.totals.all("replays", "running"),
            },
            labels=("job_type",),
        ),
        Row(
            "nats3_nats_messages",
            "Messages captured from NATS (in) and published into it (out).",
            COUNTER,
            lambda jobs: _in_out(jobs.totals.all("captured_messages"), jobs.totals.all("published_messages")),
            labels=("direction",),
        ),
        Row(
            "nats3_nats_bytes",
            "Subjects, headers and payloads of messages captured (in) and published (out).",
            COUNTER,
            lambda jobs: _in_out(jobs.totals.all("captured_bytes"), jobs.totals.all("published_bytes")),
            labels=("direction",),
        ),
        Row(
            "nats3_s3_objects",
            "Objects that replays read (in), and chunks and manifests that were put (out).",
            COUNTER,
            lambda jobs: _in_out(
                jobs.totals.all("fetched_objects"), jobs.totals.all("chunks") + jobs.totals.all("seals")
            ),
            labels=("direction",),
        ),
        Row(
            "nats3_s3_bytes",
            "Bytes of objects that replays read (in), and that were put (out).",
            COUNTER,
            lambda jobs: _in_out(
                jobs.totals.all("fetched_bytes"), jobs.totals.all("stored_bytes") + jobs.totals.all("seal_bytes")
            ),
            labels=("direction",),
        ),
    ),
)
