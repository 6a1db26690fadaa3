"""A store that fails in every way a real one does, on command or by chance from a seed.

========  =====================================================================================================
fault     what happens
========  =====================================================================================================
BEFORE    nothing; the caller cannot know (connection lost while sending)
AFTER     the effect, but the answer is lost
LATE      nothing now; the effect comes before one of the next calls (a request stuck on the way)
REFUSED   nothing, and the caller is told so (503 SlowDown)
PARTIAL   some of the keys are deleted, or some of the listing given; any other call fails as BEFORE
DENIED    nothing; trying again does not help. Only on command
========  =====================================================================================================
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from random import Random
from threading import RLock
from typing import NoReturn, TypeVar

from siltstone.model.buffers import Buffers
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectStore,
    ObjectSummary,
    StoreDenied,
    StoreTransient,
    UploadedPart,
)

T = TypeVar("T")


class Fault(Enum):
    BEFORE = "before"
    AFTER = "after"
    LATE = "late"
    REFUSED = "refused"
    PARTIAL = "partial"
    DENIED = "denied"


BY_CHANCE = (Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.REFUSED, Fault.PARTIAL)


class FaultyStore:
    """Wraps any adapter. ``fail_next`` scripts faults, ``fault_rate`` adds some by chance; ``calm`` ends both."""

    def __init__(
        self,
        store: ObjectStore,
        rng: Random | None = None,
        *,
        fault_rate: float = 0.0,
        faults: Sequence[Fault] = BY_CHANCE,
    ) -> None:
        self.store = store
        self.fault_rate = fault_rate
        self.history: list[tuple[str, Fault | None]] = []
        self._rng = rng or Random(0)
        self._faults = faults
        self._script: list[tuple[Fault | None, str | None]] = []
        self._late: list[Callable[[], object]] = []
        self._lock = RLock()

    def fail_next(self, *faults: Fault | None, call: str | None = None) -> None:
        """Plans one fault for each of the next calls; with ``call``, for the next calls of that name. None lets a
        call pass."""
        self._script += [(fault, call) for fault in faults]

    def calm(self) -> None:
        """No more faults; what is late arrives."""
        self.fault_rate = 0.0
        self._script.clear()
        self._land_late()

    @property
    def url(self) -> str:
        return self.store.url

    def put(self, key: str, buffers: Buffers) -> None:
        kept = [bytes(buffer) for buffer in buffers]
        self._call("put", lambda: self.store.put(key, kept))

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        kept = [bytes(buffer) for buffer in buffers]
        self._call("put_if_absent", lambda: self.store.put_if_absent(key, kept))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._call("get_range", lambda: self.store.get_range(key, start, end))

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        return self._call("get_range", lambda: self.store.get_pieces(key, start, ends))

    def head(self, key: str) -> ObjectSummary:
        return self._call("head", lambda: self.store.head(key))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        fault = self._choose("list")
        if fault not in (None, Fault.PARTIAL):
            self._fail("list", fault, lambda: None)
        found = [*self.store.list(prefix, after)]
        given = found if fault is None else found[: self._rng.randint(0, len(found))]
        yield from given
        if fault is not None:
            raise StoreTransient("list: partial", uncertain=True)

    def delete(self, keys: Sequence[str]) -> None:
        some = [key for key in keys if self._rng.random() < 0.5]
        self._call("delete", lambda: self.store.delete(keys), partial=lambda: self.store.delete(some))

    def start_multipart(self, key: str) -> MultipartUpload:
        return self._call("start_multipart", lambda: self.store.start_multipart(key))

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        kept = [bytes(buffer) for buffer in buffers]
        return self._call("upload_part", lambda: self.store.upload_part(upload, part_number, position, kept))

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        return self._call(
            "copy_part",
            lambda: self.store.copy_part(upload, part_number, position, source_key, start, end),
        )

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        self._call("complete_multipart", lambda: self.store.complete_multipart(upload, parts))

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._call("abort_multipart", lambda: self.store.abort_multipart(upload))

    def list_multipart(self) -> Iterator[MultipartUpload]:
        return self._call("list_multipart", lambda: iter([*self.store.list_multipart()]))

    def close(self) -> None:
        self.store.close()

    def _call(self, name: str, effect: Callable[[], T], partial: Callable[[], object] = lambda: None) -> T:
        with self._lock:
            fault = self._choose(name)
            if fault is not None:
                self._fail(name, fault, effect, partial)
            return effect()

    def _fail(
        self,
        name: str,
        fault: Fault | None,
        effect: Callable[[], object],
        partial: Callable[[], object] = lambda: None,
    ) -> NoReturn:
        if fault is Fault.DENIED:
            raise StoreDenied(f"{name}: denied on command")
        if fault is Fault.AFTER:
            _silently(effect)
        if fault is Fault.PARTIAL:
            _silently(partial)
        if fault is Fault.LATE:
            self._late.append(effect)
        raise StoreTransient(f"{name}: {fault}", uncertain=fault is not Fault.REFUSED)

    def _choose(self, name: str) -> Fault | None:
        if self._late and self._rng.random() < 0.5:
            self._land_late()
        fault = self._scripted(name)
        self.history.append((name, fault))
        return fault

    def _scripted(self, name: str) -> Fault | None:
        for index, (fault, call) in enumerate(self._script):
            if call in (None, name):
                del self._script[index]
                return fault
        return self._rng.choice(self._faults) if self._rng.random() < self.fault_rate else None

    def _land_late(self) -> None:
        late, self._late = self._late, []
        for effect in late:
            _silently(effect)


def _silently(effect: Callable[[], object]) -> None:
    """Makes the call, and drops its answer, good or bad."""
    with suppress(SiltstoneError):
        effect()
