"""Pages: the chunks that an attempt has yet to publish, PAGE at a time.

Invariant: a page is published and recorded before the next one is asked for, and it reaches as far as the messages
that an earlier attempt left in the targets. So one page alone has messages that may be there, and the targets are asked
once.
"""

from dataclasses import dataclass, replace

from nats3_dagster.model import Chunk
from nats3_dagster.replay.job import Reached, ReplayJob, done_ranges, joined
from nats3_dagster.workspace import Workspace

# Chunks that driver and tasks hold at a time: 2.4 KB each. A page is a job of Spark's, whose tasks all end before the
# next one begins.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Chunks that are published together."""

    # The job as it is for them.
    job: ReplayJob
    # In the order of the plan.
    chunks: tuple[Chunk, ...]


class Pages:
    """Walks through the pending chunks of an attempt. Each page is asked of the catalog when its turn comes: a
    compaction may have put its chunks into others meanwhile, and one that was taken out of the archive is an error
    then."""

    def __init__(self, workspace: Workspace, job: ReplayJob) -> None:
        self._replay_chunks, self._job = workspace.catalog.replay_chunks, job
        self._done = self._replay_chunks.done(job.id)
        # The page before, and the places in the plan after which it begins and at which it ends.
        self._page: Page | None = None
        self._after = self._end = 0

    def next(self, reached: Reached | None = None) -> Page | None:
        """The next page, when the one before is recorded; None after the last. `reached`: the tasks of the page before
        found messages up to this one, and what is left of the page comes again, with all chunks up to there: only then
        can be seen whether a message before one of those is missing. Raises CatalogError."""
        if reached is None:
            self._after = self._end
        if self._page:
            self._done = joined((*self._done, *self._replay_chunks.done(self._job.id, self._page.chunks)))
            self._job = replace(self._job, done=done_ranges(self._done), fresh=reached is None)
        chunks, self._end = tuple[Chunk, ...](), self._after
        is_last, until = False, ("", 0)
        while not is_last and (not chunks or (reached and until < (reached.token, reached.seq))):
            pending = self._replay_chunks.pending(self._job.id, after=self._end, places=PAGE)
            chunks, self._end, is_last = chunks + pending.chunks, pending.position, pending.is_last
            if chunks:
                until = chunks[-1].meta.incarnation.token, chunks[-1].meta.covers.last
        self._page = Page(replace(self._job, until=None if is_last else until), chunks) if chunks else None
        return self._page
