"""Places: the export that the files below a destination belong to.

Invariant: a place belongs to one export of one archive of one catalog, and the first one that writes there owns it: an
object that is created only where there is none says so. No file is written to a place of another owner, and a place
changes its owner only when a person asks for that.
"""

import json
from dataclasses import asdict, dataclass

from nats3_dagster.errors import Conflict, StoreError
from nats3_dagster.exports.job import OWNER_PATH, own_folder
from nats3_dagster.exports.plan import ExportPlan, outlet_options
from nats3_dagster.model import Archive
from nats3_dagster.model.export import Export
from nats3_dagster.objects import Outlet, OwnerObject
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Former:
    """An owner that a place had before."""

    archive: str
    export: str


@dataclass(frozen=True, slots=True)
class Owner:
    """The export that a place belongs to."""

    # The UUID of the archive's job: no two archives share one, in whichever catalogs they are.
    archive_id: str
    archive: str
    export: str
    # The owners before it, oldest first. The files of theirs that are still there are in their manifests.
    former: tuple[Former, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """An export that is deleted and declared again under its name is the same owner: its manifests are there."""
        return self.archive_id, self.export

    def encode(self) -> bytes:
        """The same bytes for the same owner."""
        return json.dumps({"version": _VERSION} | asdict(self), indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A place that was taken over."""

    former: Owner
    # Hours that the former owner has files of. Each stays until the new owner exports that hour.
    hours: int


def claim(plan: ExportPlan) -> Owner:
    """The owner of the plan's place: the plan's export, which takes a place that has none. Raises Conflict where the
    place belongs to another export, StoreError."""
    job = plan.job
    mine = Owner(job.archive_id, job.archive, job.spec.name)
    owner = _object(Outlet(job.outlet)).create(mine)
    if owner.identity != mine.identity:
        raise _foreign(owner, mine, job.place)
    return owner


def check_claimed(plan: ExportPlan, owner: Owner) -> None:
    """Raises Conflict if the place was taken over since `claim`."""
    if (now := read_owner(Outlet(plan.job.outlet))) != owner:
        other = f"export {now.export} of archive {now.archive}" if now else "no export"
        raise Conflict(
            f"{plan.job.place} changed its owner while {plan.job.hour} was exported: it belongs to {other} now",
            "Let only one export write to a place, then run it again",
        )


def read_owner(outlet: Outlet) -> Owner | None:
    """Returns the owner; None for a place without one. Raises StoreError."""
    return _object(outlet).read()


def other_owner(workspace: Workspace, archive: Archive, export: Export) -> Owner | None:
    """The owner of the export's place, if it is another export. Raises StoreError."""
    owner = read_owner(Outlet(outlet_options(workspace.settings.store, archive, export.spec)))
    return owner if owner and owner.identity != (str(archive.job_id), export.name) else None


def take_over(workspace: Workspace, archive: Archive, export: Export) -> TakenOver | None:
    """Make the export the owner of its place; None where it is already, or the place has none. Files stay: those of
    an hour are replaced when the export makes that hour. The former owner is refused from then on. No live export of
    this catalog has the place as well: the catalog refuses that.

    Raises Conflict if another process takes the place over at the same time, StoreError."""
    if (former := other_owner(workspace, archive, export)) is None:
        return None
    outlet = Outlet(outlet_options(workspace.settings.store, archive, export.spec))
    chain = (*former.former, Former(former.archive, former.export))
    mine = Owner(str(archive.job_id), archive.name, export.name, tuple(dict.fromkeys(chain)))
    if _object(outlet).replace(mine) != mine:
        raise Conflict(
            f"Another export took {export.spec.destination} over at the same time", "Decide which of them writes there"
        )
    folder = own_folder(former.archive, former.export)
    hours = sum(path.count("/") == folder.count("/") + 1 for path in outlet.list(folder))
    return TakenOver(former, hours)


def foreign_text(owner: Owner, place: str) -> str:
    """The sentence that names the owner of a place."""
    return f"{place} belongs to export {owner.export} of another archive {owner.archive} ({owner.archive_id})"


def _object(outlet: Outlet) -> OwnerObject[Owner]:
    return OwnerObject(outlet, OWNER_PATH, _decode)


def _decode(data: bytes) -> Owner:
    try:
        document = json.loads(data)
        if document.pop("version") != _VERSION:
            raise ValueError(_VERSION)
        return Owner(former=tuple(Former(**former) for former in document.pop("former")), **document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{OWNER_PATH} at the destination does not say which export the place belongs to",
            "Give the export another destination, or remove that object if no other export writes there",
        ) from None


def _foreign(owner: Owner, mine: Owner, place: str) -> Conflict:
    if owner.archive_id == mine.archive_id:
        what = f"{place} belongs to export {owner.export} of archive {owner.archive}"
    else:
        what = foreign_text(owner, place)
    return Conflict(
        f"{what}, and its files are not those of export {mine.export}",
        Next.TAKE_OVER_PLACE(archive=mine.archive, export=mine.export),
    )
