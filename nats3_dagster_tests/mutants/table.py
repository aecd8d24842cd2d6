"""The modules that hold the promises, each with its nearest tests: they judge its mutants, the pure ones first.

A test judges the mutants of the lines that it reaches. A name without a folder is a file of `integration/`.
"""

from pathlib import PurePath

_PACKAGE, _TESTS = "nats3_dagster", "nats3_dagster_tests"

_SELECTED = "unit/test_selected unit/test_extent unit/test_selection chosen replay_selection selection_edges frames"
_ERASED = "unit/test_cut unit/test_erasure_records erasure erasure_final"
_PUBLISHER = "unit/test_publisher_state unit/test_window unit/test_frames_out unit/test_outbox publisher republish"
_PUBLISHER += " published live_resume"
_CAPTURED = "unit/test_plan unit/test_absence capture_task capture_hours many_hours absences adoption"

# What a promise rests on: module, and files of tests.
_TABLE = {
    # Subjects, selections and hours.
    "subjects.py": "unit/test_subjects subject_bytes hostile_names",
    "hours.py": "unit/test_hours unit/test_selection unit/test_extent",
    "model/selection.py": f"{_SELECTED} subject_bytes",
    "model/stream.py": f"unit/test_ranges unit/test_erasure_records unit/test_selection {_CAPTURED}",
    "archive/selected/extent.py": _SELECTED,
    "archive/selected/archive_selection.py": f"{_SELECTED} reads_by_subject",
    "archive/selected/uncovered.py": _SELECTED,
    "archive/selected/chosen.py": _SELECTED,
    "archive/selected/next_chunks.py": f"{_SELECTED} cursor follow",
    "archive/selected/boundary_gaps.py": f"{_SELECTED}",
    "archive/selected/held.py": _SELECTED,
    "archive/selected/removed.py": f"{_SELECTED} removed_messages retention",
    # A capture: windows, plan, read, absence, loss, agreement, commit.
    "archive/source/windows.py": f"{_CAPTURED} selection_edges",
    "archive/captures/hour_windows.py": _CAPTURED,
    "archive/captures/plan.py": _CAPTURED,
    "archive/captures/due.py": f"{_CAPTURED} backlog taking_deliveries",
    "archive/captures/read.py": _CAPTURED,
    "archive/captures/commit.py": f"{_CAPTURED} change_filter witness",
    "archive/captures/adopt.py": f"{_CAPTURED} older_copies",
    "archive/source/absence.py": f"{_CAPTURED} taking_absences",
    "archive/source/loss.py": f"backlog {_CAPTURED}",
    "archive/source/agreement.py": "unit/test_agreement adoption older_copies witness",
    "archive/source/stream_changes.py": "unit/test_stream_changes witness restored condition older_copies",
    "jetstream/read/breaks.py": "unit/test_stream_changes unit/test_frames reader read_end capture_task",
    "jetstream/read/contents.py": "unit/test_frames reader read_end",
    "jetstream/read/times.py": "unit/test_frames reader read_end admin",
    # Seals, retention, compaction, erasure.
    "archive/proof/seal.py": "seal selection_edges clocks hour_versions copies",
    "archive/proof/manifests.py": "unit/test_manifest seal hour_versions repair",
    "archive/keep/cut.py": _ERASED,
    "archive/keep/erasure.py": _ERASED,
    "archive/keep/erasure_work.py": _ERASED,
    "archive/keep/erased_search.py": _ERASED,
    "archive/stored/erased.py": _ERASED,
    "archive/stored/erasure_record.py": _ERASED,
    "archive/keep/retention.py": "unit/test_retention_rules retention rebuild",
    "archive/keep/runs.py": "unit/test_runs compaction",
    "archive/captures/hour_run.py": "unit/test_hour_run many_hours",
    "archive/keep/merge.py": "unit/test_merge compaction compaction_replays",
    # A replay: the publisher, what counts as published, order, refusals.
    "jetstream/publish/state.py": _PUBLISHER,
    "jetstream/publish/window.py": _PUBLISHER,
    "jetstream/publish/acks.py": _PUBLISHER,
    "jetstream/publish/outbox.py": _PUBLISHER,
    "jetstream/publish/batch.py": _PUBLISHER,
    "jetstream/publish/atomic.py": f"unit/test_atomic unit/test_headers {_PUBLISHER}",
    "jetstream/publish/stored.py": _PUBLISHER,
    "replay/messages/published.py": f"unit/test_known_messages {_PUBLISHER} changing_targets",
    "replay/messages/republish.py": f"{_PUBLISHER} live changing_targets compaction_replays",
    "replay/messages/mapping.py": f"unit/test_mapping unit/test_headers {_PUBLISHER}",
    "replay/targets.py": "unit/test_targets published replay_refusals changing_targets republish",
    "replay/planning/refusals.py": "unit/test_targets replay_refusals replay_plan",
    "replay/planning/room.py": "replay_refusals replay_plan",
    # Outputs.
    "exports/replace.py": "unit/test_export_replace unit/test_export_files export export_places",
    "archive/read/cursor.py": "cursor cat library compaction",
    "archive/read/cursor_state.py": "unit/test_cursor_token cursor cat",
    # Queries of the catalog.
    "catalog/sql/coverage.sql": f"catalog_coverage catalog_chunks {_CAPTURED} selection_edges",
    "catalog/sql/seals.sql": "catalog_seals catalog_chunks seal hour_versions selection_edges retention rebuild",
    "catalog/sql/chunk_sums.sql": "catalog_sums chosen catalog_chunks replay_selection totals",
    "catalog/sql/gaps.sql": f"catalog_chunks {_CAPTURED} backlog removed_messages",
    "catalog/sql/measures.sql": "totals catalog_chunks condition outputs",
    "catalog/sql/removals.sql": "catalog_removals catalog_races sweep retention remove copies catalog_chunks",
    "catalog/sql/expiry.sql": "catalog_expiry retention rebuild catalog_chunks",
}


def modules() -> list[str]:
    """The modules from the root of the checkout, in the order of the table."""
    return [f"{_PACKAGE}/{name}" for name in _TABLE]


def file_of(word: str) -> str:
    """The file that a word of the table names, from the root of the checkout."""
    return f"{_TESTS}/{word}.py" if "/" in word else f"{_TESTS}/integration/test_{word}.py"


def nearest(module: str) -> list[str]:
    """The files of a module's tests, from the root of the checkout, the pure ones first."""
    words = _TABLE[str(PurePath(module).relative_to(_PACKAGE))].split()
    return [file_of(word) for word in dict.fromkeys(words)]
