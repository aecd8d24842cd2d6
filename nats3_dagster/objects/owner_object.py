"""Owner objects: a small object that says whose the folder around it is.

Invariant: the owner is read before its object is created or replaced, and once more after that. A store may ignore the
condition of a create-only PUT, and another process may write the same object at the same time: what is read last
counts. Where a store ignores conditions, a PUT that comes after that reading is noticed by the next one: owners are
read before each use of a folder.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.objects.bucket import Bucket
from nats3_dagster.objects.outlet import Outlet

# Bytes of an owner object.
_MOST = 64 << 10


class Owner(Protocol):
    """The content of an owner object."""

    def encode(self) -> bytes:
        """The same bytes for the same owner."""
        ...


OwnerT = TypeVar("OwnerT", bound=Owner)


@dataclass(frozen=True, slots=True)
class OwnerObject(Generic[OwnerT]):
    """The owner object at a key of a store. Each method raises StoreError."""

    store: Bucket | Outlet
    key: str
    # From the object's bytes. Raises StoreError for an object that names no owner.
    decode: Callable[[bytes], OwnerT]

    def read(self) -> OwnerT | None:
        """Returns the owner; None if there is none."""
        if isinstance(self.store, Outlet):
            data = self.store.get(self.key)
        else:
            try:
                data = bytes(self.store.get(self.key, _MOST))
            except ObjectMissing:
                data = None
        return None if data is None else self.decode(data)

    def create(self, owner: OwnerT) -> OwnerT:
        """The owner afterwards: this one where there was none, else the one that was first."""
        if present := self.read():
            return present
        fault_point("owner.absent")
        # False also where the answer to an earlier try of this PUT was lost.
        self.store.create(self.key, owner.encode())
        return self._confirmed()

    def replace(self, owner: OwnerT) -> OwnerT:
        """The owner afterwards: this one, or that of another process which replaced it at the same time."""
        data = owner.encode()
        if isinstance(self.store, Outlet):
            self.store.put(self.key, data)
        else:
            self.store.put_again(self.key, data, hashlib.sha256(data).hexdigest())
        return self._confirmed()

    def _confirmed(self) -> OwnerT:
        fault_point("owner.written")
        if present := self.read():
            return present
        raise StoreError(f"{self.key} was written and is not there", "Look at the store, then try again")
