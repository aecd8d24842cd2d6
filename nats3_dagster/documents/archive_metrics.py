"""The metrics of an archive and of its replays. Names, labels and units are an interface."""

from nats3_dagster.archive.captures.capture_log import KINDS
from nats3_dagster.archive.metrics_snapshot import HOUR_STATES
from nats3_dagster.archive.source.condition import SOURCE_STATES
from nats3_dagster.documents.metric_scopes import OfArchive
from nats3_dagster.documents.metric_table import COUNTER, GAUGE, HISTOGRAM, Row, Table, by_label
from nats3_dagster.model import LOSSES, REMOVED
from nats3_dagster.replay.metrics_snapshot import ATTEMPT_ENDS, REPLAY_STATES

# The levels of archive.source.loss, as numbers to compare with.
_LEVELS = {"ok": 0, "paused": 1, "warn": 1, "error": 2}

# What the source does not say has no sample.
ARCHIVES = Table[OfArchive](
    labels=("archive",),
    label_values=lambda one: (one.name,),
    rows=(
        Row("nats3_archive_paused", "Whether the archive is paused.", GAUGE, lambda one: one.now.archive.paused),
        Row(
            "nats3_archive_source_up",
            "Whether the stream is there as it should be, and answers.",
            GAUGE,
            lambda one: one.now.condition.source == "ok",
        ),
        Row(
            "nats3_archive_source_state",
            "The state of the stream: 1 for the one it is in.",
            GAUGE,
            lambda one: by_label(SOURCE_STATES, lambda state: one.now.condition.source == state),
            labels=("state",),
        ),
        Row(
            "nats3_archive_max_age_seconds",
            "Age of the oldest message at which a capture is due.",
            GAUGE,
            lambda one: one.now.archive.spec.max_age_s,
        ),
        Row(
            "nats3_archive_lag_messages",
            "Sequences that the stream has and the archive has not.",
            GAUGE,
            lambda one: one.waiting and one.waiting.behind,
        ),
        Row(
            "nats3_archive_lag_seconds",
            "Age of the oldest message that is not captured.",
            GAUGE,
            lambda one: one.waiting and (one.waiting.behind_s if one.waiting.behind else 0),
        ),
        Row(
            "nats3_archive_gone_messages",
            "Sequences that the stream deleted uncaptured, and no capture has recorded yet.",
            GAUGE,
            lambda one: one.loss and one.loss.gone,
        ),
        Row(
            "nats3_archive_time_to_loss_ratio",
            "Share of the way to deletion that the oldest uncaptured message has gone, by the stream's nearest limit.",
            GAUGE,
            lambda one: one.loss and one.loss.used,
        ),
        Row(
            "nats3_archive_loss_level",
            "Danger of loss: 0 none, 1 a warning, 2 an error.",
            GAUGE,
            lambda one: one.loss and _LEVELS[one.loss.level],
        ),
        Row("nats3_archive_messages", "Messages in the archive.", GAUGE, lambda one: one.now.totals.messages),
        Row(
            "nats3_archive_bytes",
            "Subjects, headers and payloads of the messages in the archive.",
            GAUGE,
            lambda one: one.now.totals.payload_bytes,
        ),
        Row(
            "nats3_archive_stored_bytes",
            "Size of the objects of the archive's chunks.",
            GAUGE,
            lambda one: one.now.totals.stored_bytes,
        ),
        Row("nats3_archive_chunks", "Chunks in the archive.", GAUGE, lambda one: one.now.totals.chunks),
        Row(
            "nats3_archive_partitions",
            "Hours with messages, by state; open ones have not ended.",
            GAUGE,
            lambda one: by_label(HOUR_STATES, lambda state: one.now.hours.get(state, 0)),
            labels=("state",),
        ),
        Row(
            "nats3_archive_missing_messages",
            "Sequences that are lost for good, by reason.",
            GAUGE,
            lambda one: by_label(LOSSES, lambda reason: one.now.missing.get(reason, 0)),
            labels=("reason",),
        ),
        Row(
            "nats3_archive_removed_messages",
            "Sequences that were removed on purpose: after a replay, not kept any longer, or erased.",
            GAUGE,
            lambda one: by_label(REMOVED, lambda reason: one.now.removed.get(reason, 0)),
            labels=("reason",),
        ),
        Row("nats3_archive_holds", "Holds in force.", GAUGE, lambda one: one.now.holds),
        Row(
            "nats3_archive_overdue_partitions",
            "Hours that the archive's keep has passed and that are there, but for what holds cover.",
            GAUGE,
            lambda one: one.now.overdue,
        ),
        Row(
            "nats3_archive_erased_objects",
            "Objects that have erased messages and are still in the store.",
            GAUGE,
            lambda one: one.now.erased_objects,
        ),
        Row(
            "nats3_archive_copy_missing_objects",
            "Objects that a copy of the archive does not have yet.",
            GAUGE,
            lambda one: by_label(one.now.archive.spec.copies, lambda name: one.now.copy_missing.get(name, 0)),
            labels=("bucket",),
        ),
        Row(
            "nats3_archive_copy_lag_seconds",
            "How long the oldest object is missing in a copy of the archive.",
            GAUGE,
            lambda one: by_label(one.now.archive.spec.copies, lambda name: one.now.copy_lag_s.get(name, 0)),
            labels=("bucket",),
        ),
        Row(
            "nats3_archive_last_success_timestamp_seconds",
            "When the newest capture that completed ended.",
            GAUGE,
            lambda one: one.now.completed_at,
        ),
        Row(
            "nats3_archive_drill_ok",
            "Whether the last drill of a restore found all as it should be.",
            GAUGE,
            lambda one: one.now.drill and one.now.drill.error is None,
        ),
        Row(
            "nats3_archive_drill_timestamp_seconds",
            "When a drill last found all as it should be.",
            GAUGE,
            lambda one: one.now.drill and one.now.drill.proven_at and one.now.drill.proven_at.timestamp(),
        ),
        Row(
            "nats3_archive_restore_seconds",
            "How long a restore of all messages would take, by the last drill.",
            GAUGE,
            lambda one: one.restore_s,
        ),
        Row(
            "nats3_archive_recovery_point_seconds",
            "How old the moment was at the last drill up to which all is archived.",
            GAUGE,
            lambda one: one.now.drill and one.now.drill.rpo_s,
        ),
        Row(
            "nats3_archive_captured_messages",
            "Messages in chunks that were committed.",
            COUNTER,
            lambda one: one.sum("captured_messages"),
        ),
        Row("nats3_archive_captures", "Captures that completed.", COUNTER, lambda one: one.sum("captures")),
        Row(
            "nats3_archive_failures",
            "Captures that failed.",
            COUNTER,
            lambda one: one.sums("failures", KINDS),
            labels=("kind",),
        ),
        Row(
            "nats3_archive_lost_messages",
            "Sequences that were recorded as lost.",
            COUNTER,
            lambda one: one.sums("lost", LOSSES),
            labels=("reason",),
        ),
        Row(
            "nats3_archive_chunk_bytes",
            "Sizes of the objects of chunks that were committed.",
            HISTOGRAM,
            lambda one: one.sizes(),
        ),
        Row(
            "nats3_replay_state",
            "Replays in each state.",
            GAUGE,
            lambda one: one.sums("replays", REPLAY_STATES),
            labels=("state",),
        ),
        Row(
            "nats3_replay_attempts",
            "Attempts of replays, by how they ended.",
            COUNTER,
            lambda one: one.sums("attempts", ATTEMPT_ENDS),
            labels=("state",),
        ),
        Row(
            "nats3_replay_published_messages",
            "Messages that replays published.",
            COUNTER,
            lambda one: one.sum("published_messages"),
        ),
    ),
)
