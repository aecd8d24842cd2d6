"""A capture's job: the input of its tasks. Workers import it, and not the catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.model import ArchiveSpec, FormerFilter, SeqRange, StreamState
from nats3_dagster.model.archive import filters_of
from nats3_dagster.objects import StoreOptions


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """The input of every task of one capture; pickled into the Spark workers."""

    spec: ArchiveSpec
    state: StreamState
    # The hours with sequences, ascending, each with its first one. A chunk ends before the next hour begins.
    hours: tuple[tuple[str, int], ...]
    nats: NatsOptions
    store: StoreOptions
    # The subject on which tasks report how far they are; None for no reports.
    progress: str | None = None
    # The settings of the stream that remove messages and that were ever seen, as in its configuration.
    removing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # The subjects that the archive had before, of sequences that may be read now.
    former_filters: tuple[FormerFilter, ...] = ()
    # Whether messages of these sequences were archived, and are given up: what is absent between two messages is lost.
    given_up: bool = False

    def subjects(self, seqs: SeqRange) -> tuple[str, ...]:
        """The subjects that the archive takes of these sequences: those of a plan never have two filters."""
        ((_, subjects),) = filters_of(self.spec.subjects, self.former_filters, self.state.incarnation, seqs)
        return subjects
