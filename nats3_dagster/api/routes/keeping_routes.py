"""`/archive/{name}/...`: holds, expiry, copies, compaction, erasure. Each request does its work before it answers."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from nats3_dagster.api.context import IsAway, Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive.keep import erasure, holds, retention
from nats3_dagster.archive.keep.compaction import compact_hours
from nats3_dagster.archive.stored import copies, copy_check
from nats3_dagster.bodies.base import Text
from nats3_dagster.bodies.keeping import EraseMessages, PlaceHold, Reason
from nats3_dagster.documents.compactions import CompactedArchive
from nats3_dagster.documents.erasing import ErasedMessages, ProvenErasures
from nats3_dagster.documents.keeping import CopiedObjects, DeletedHold, ExpiredHours, ForgottenCopy, PlacedHold
from nats3_dagster.errors import calling
from nats3_dagster.model import Selection
from nats3_dagster.query.limits import OF_REQUESTS
from nats3_dagster.query.matching import Conditions, matching
from nats3_dagster.tables.follow import ANSWER_S, followed

# Hours that one request compacts: each is read and written as a whole.
MOST_COMPACTED = 24
router = APIRouter(prefix="/archive/{name}", tags=["keeping"], route_class=JsonRoute)
Name = Annotated[Text, Path(description="Name of the archive.", examples=["logs"])]


@router.post("/holds", status_code=201, response_model=PlacedHold)
def place_hold(name: Name, body: PlaceHold, work: Work) -> Any:
    """Hold hours or sequences of an archive: nothing removes them until the hold is deleted. It needs a token with the
    scope `hold`, as its end does."""
    return PlacedHold.of_placed(holds.place(work, name, body.name, body.selection(), body.reason))


@router.delete("/holds/{hold}", response_model=DeletedHold)
def delete_hold(
    name: Name,
    hold: Annotated[Text, Path(description="Name of the hold.", examples=["case-17"])],
    reason: Annotated[Reason, Query(description="Why these messages need not stay.", examples=["case-17 is closed"])],
    work: Work,
) -> Json:
    """End a hold. What should have expired then expires."""
    holds.release(work, name, hold, reason)
    return Json(DeletedHold(archive=name, name=hold, reason=reason))


@router.post("/expire", response_model=ExpiredHours)
def expire(
    name: Name,
    work: Work,
    dry_run: Annotated[bool, Query(description="Say what would go, and remove nothing.")] = False,
) -> Json:
    """Remove the hours that the archive does not keep any longer, as `expiry_sensor` does."""
    with followed(work, name, patience_s=ANSWER_S):
        found = retention.expire(work, name, dry_run=dry_run)
    return Json(ExpiredHours.of(found, WORDS, dry_run=dry_run))


@router.post("/copy", response_model=list[CopiedObjects])
def copy(
    name: Name,
    work: Work,
    verify: Annotated[
        bool, Query(description="Read every object of the copies, and put again what is missing or damaged there.")
    ] = False,
) -> Json:
    """Copy what is missing in the copies of the archive, as `copy_sensor` does."""
    archive = work.catalog.archives.get(name)
    copies.require_copies(archive)
    done = copies.copy(work, archive)
    return Json(CopiedObjects.of_all(archive.name, done, copy_check.check_copies(work, archive) if verify else ()))


@router.post("/compact", response_model=CompactedArchive)
def compact(
    name: Name,
    work: Work,
    hour: Annotated[
        list[str],
        Query(
            description="A sealed hour. May be repeated.",
            min_length=1,
            max_length=MOST_COMPACTED,
            examples=[["2026-11-21-07:00"]],
        ),
    ],
) -> Json:
    """Merge the small chunks of sealed hours: the same messages in fewer objects."""
    archive = work.catalog.archives.get(name)
    with calling({"hours": "hour"}):
        hours = Selection(hours=tuple(hour)).hours
    with followed(work, archive.name, patience_s=ANSWER_S):
        done = list(compact_hours(work, archive, sorted(set(hours))))
    return Json(CompactedArchive.of(archive.name, done, len(set(hours))))


@router.post("/erase", response_model=ErasedMessages)
def erase(name: Name, body: EraseMessages, work: Work, is_away: IsAway) -> Json:
    """Erase messages for good, with every object that has them. It needs a token with the scope `erase`, which the
    history names. What the conditions choose is looked up within limits of time, memory and number, and while the
    client waits. A problem of the store is an error: what was erased stays erased, and the same request does the
    rest."""
    archive = work.catalog.archives.get(name)
    conditions = Conditions(body.selection(), tuple((body.headers or {}).items()), body.where or "")
    before = 0 if body.dry_run else erasure.carry_out(work, archive).finished
    wanted = matching(work, archive, conditions, limits=OF_REQUESTS, is_away=is_away)
    if body.dry_run:
        done = erasure.plan(work, archive, wanted)
    else:
        with followed(work, archive.name, patience_s=ANSWER_S):
            done = erasure.erase(work, archive, wanted, reason=body.reason, chosen_by=conditions.kinds)
        if done.problem:
            raise done.problem
    document = ErasedMessages.of(
        work, archive, wanted, done, body.reason, conditions.kinds, dry_run=body.dry_run, finished_before=before
    )
    return Json(document)


@router.post("/erase/prove", response_model=ProvenErasures)
def prove_erasures(name: Name, work: Work) -> Json:
    """Search every object of the archive, its versions and its copies for a message of any erasure. `found` is empty if
    there is none; what is in it is removed by the next sweep."""
    return Json(ProvenErasures.of(erasure.prove(work, work.catalog.archives.get(name))))


@router.delete("/copies/{bucket:path}", response_model=ForgottenCopy)
def forget_copy(
    name: Name,
    bucket: Annotated[Text, Path(description="A former copy whose bucket is gone for good.", examples=["orders-old"])],
    work: Work,
) -> Json:
    """Forget a former copy, one that was taken out of the archive's settings: erasures do not look there any more."""
    copies.forget(work, work.catalog.archives.get(name), bucket)
    return Json(ForgottenCopy(archive=name, bucket=bucket))
