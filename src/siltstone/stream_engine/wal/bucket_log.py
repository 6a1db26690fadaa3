"""Handles the objects of one node's write-ahead log in a bucket: lists, seals, reads and deletes them.

``object_formats.wal_object`` has their bytes and keys, ``runs`` the rules that say which objects are read and where a
life is sealed. Every request is one blocking call of the object store; errors of the store pass through. Next:
``bucket_wal``.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec

from siltstone.model.buffers import Buffer, Buffers
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, MIB, SECOND_MS
from siltstone.object_formats.identity import LogIdentity, decode_log_identity
from siltstone.object_formats.log_file import DamagedWal, WalRecord, damage_at
from siltstone.object_formats.wal_object import (
    SEAL_BYTES,
    WAL_OBJECT_HEADER_BYTES,
    WalObjectHeader,
    WalObjectKind,
    WalSeal,
    decode_bulk,
    decode_wal_object,
    decode_wal_object_header,
    encode_seal_body,
    encode_wal_object,
    wal_object_key,
    wal_object_name,
    wal_prefix,
)
from siltstone.object_store.keys import has_content
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.wal.port import LogObjectsContradict, WalOfAnotherNode, WalOfAnotherStore
from siltstone.stream_engine.wal.runs import (
    LifeRun,
    Place,
    kept_seq_of,
    possible_seals,
    refuse_acknowledged_gap,
    run_of_life,
    sealed_run,
)

CONTRADICTION_MS_MAX = 30 * SECOND_MS
"""How long a bucket may contradict itself about the objects of a log: a listing may be behind for seconds."""

LOOK_MS_MIN = 100
LOOK_MS_MAX = 5 * SECOND_MS
"""The waits between two looks at such a bucket, which double."""

READ_AHEAD_BYTES_MAX = 32 * MIB
READ_AHEAD_OBJECTS_MAX = 8
"""The most objects that are read ahead while the log is recovered."""

Lives = dict[int, dict[int, int]]
"""Node epoch → seq → size in bytes, of every object that was listed."""

Found = tuple[WalObjectHeader, memoryview] | None
"""Header and body of an object; None when it is gone."""


class SealedLog(msgspec.Struct, frozen=True):
    """The log of all lives before one epoch, which are sealed. ``runs`` are the objects to recover of each life, in
    order; ``others`` are the objects, except seals, that are no longer needed. The log ends at ``end_position``, and
    records below ``trimmed_position`` are committed."""

    runs: tuple[LifeRun, ...]
    others: tuple[Place, ...]
    trimmed_position: int
    end_position: int
    sizes: Lives


EMPTY_LOG = SealedLog((), (), 0, 0, {})


class BulkRecords(msgspec.Struct, frozen=True):
    """A bulk that was read back; ``end_position`` is the log position after its last record."""

    place: Place
    end_position: int
    records: list[WalRecord]


class Bulk:
    """An object that is being put. ``end_position``: the log position after its records."""

    def __init__(
        self,
        kind: WalObjectKind,
        place: Place,
        body: list[Buffer],
        first_position: int,
        records: int,
        kept: Place,
        asked_ms: float,
    ) -> None:
        self.kind = kind
        self.place = place
        self.body = body
        self.first_position = first_position
        self.end_position = first_position + (sum(map(len, body)) if kind is WalObjectKind.BULK else 0)
        self.records = records
        self.kept = kept
        self.asked_ms = asked_ms
        self.is_landed = False


class LogPatience:
    """Waits between two looks at a bucket that contradicts itself, up to an end. ``about``: the object concerned."""

    def __init__(self, clock: Clock, about: str) -> None:
        self._clock = clock
        self._about = about
        self._wait_ms = LOOK_MS_MIN
        self._until_ms = clock.monotonic_ms() + CONTRADICTION_MS_MAX

    async def wait(self) -> None:
        """Raises LogObjectsContradict."""
        if self._clock.monotonic_ms() >= self._until_ms:
            raise LogObjectsContradict(
                f"{self._about} of the write-ahead log has contradicted itself for {CONTRADICTION_MS_MAX // 1000} s: "
                "it lists an object that it does not return, or refuses a put where it shows no object. Nothing was "
                "deleted; check the bucket's server, and start again"
            )
        await self._clock.sleep_ms(self._wait_ms)
        self._wait_ms = min(2 * self._wait_ms, LOOK_MS_MAX)


class BucketLog:
    """``incarnation`` is a random text that each process puts into its objects, to recognise them as its own. Raises
    WalOfAnotherStore and WalOfAnotherNode wherever an object of another store or node is read under this log's keys,
    and DamagedWal where one is damaged."""

    def __init__(
        self,
        store: ObjectStore,
        store_id: str,
        node_id: int,
        calls: BlockingCalls,
        clock: Clock,
        incarnation: str,
    ) -> None:
        self.store = store
        self.store_id = store_id
        self.node_id = node_id
        self._calls = calls
        self._clock = clock
        self._incarnation = incarnation

    def key(self, place: Place) -> str:
        return wal_object_key(self.node_id, *place)

    def of_another_process(self, incarnation: str) -> "BucketLog":
        return BucketLog(self.store, self.store_id, self.node_id, self._calls, self._clock, incarnation)

    # -- writing -----------------------------------------------------------------------------------------

    def encoded(
        self,
        kind: WalObjectKind,
        place: Place,
        body: Buffers,
        *,
        first_position: int,
        trimmed_position: int,
        kept: Place,
        answered_seq: int = 0,
    ) -> Buffers:
        header = WalObjectHeader(
            kind, self.store_id, self.node_id, place[0], self._incarnation, place[1],
            first_position, trimmed_position, *kept, answered_seq,
        )  # fmt: skip
        return encode_wal_object(header, body)

    async def put(self, place: Place, buffers: Buffers) -> None:
        """Puts an object of this process. Succeeds also when an earlier attempt took effect although its answer was
        lost; raises ObjectAlreadyExists when another process has put an object there."""
        key = self.key(place)
        try:
            await self._calls.run(self.store.put_if_absent, key, buffers)
        except ObjectAlreadyExists:
            is_own = await self._calls.run(has_content, self.store.head, self.store.get_range, key, buffers)
            if not is_own:
                raise

    async def delete(self, places: Sequence[Place]) -> None:
        for first in range(0, len(places), DELETE_BATCH_KEYS_MAX):
            keys = [self.key(place) for place in places[first : first + DELETE_BATCH_KEYS_MAX]]
            await self._calls.run(self.store.delete, keys)

    # -- reading -----------------------------------------------------------------------------------------

    async def lives(self) -> Lives:
        """Returns the objects that the bucket lists below the node's prefix, by life. Keys that are not of WAL objects
        are ignored."""
        return await self._calls.run(self._list)

    def _list(self) -> Lives:
        lives: Lives = {}
        for summary in self.store.list(wal_prefix(self.node_id)):
            name = wal_object_name(summary.key)
            if name is not None:
                lives.setdefault(name.node_epoch, {})[name.seq] = summary.size_bytes
        return lives

    async def header(self, place: Place, size_bytes: int) -> WalObjectHeader | None:
        """Returns the header of an object that was listed; None when it is gone."""
        key = self.key(place)
        end = min(size_bytes, WAL_OBJECT_HEADER_BYTES)
        try:
            data = await self._calls.run(self.store.get_range, key, 0, end)
        except ObjectNotFound:
            return None
        return self._checked(place, lambda: decode_wal_object_header(data))

    async def whole(self, place: Place, size_bytes: int) -> Found:
        """Returns a whole object that was listed."""
        try:
            data = await self._calls.run(self.store.get_range, self.key(place), 0, size_bytes)
        except ObjectNotFound:
            return None
        whole: list[tuple[WalObjectHeader, memoryview]] = []

        def decoded() -> WalObjectHeader:
            whole.append(decode_wal_object(data))
            return whole[0][0]

        self._checked(place, decoded)
        return whole[0]

    def _checked(self, place: Place, decode: Callable[[], WalObjectHeader]) -> WalObjectHeader:
        key = self.key(place)
        try:
            header = decode()
        except DamagedWal as damage:
            raise damage_at(f"{key} in {self.store.url}", damage, "object") from damage
        if header.store_id != self.store_id:
            raise WalOfAnotherStore(
                f"{key} in {self.store.url} is of the write-ahead log of another store ({header.store_id}, this is "
                f"{self.store_id}): give each store a bucket or a prefix of its own"
            )
        if header.node_id != self.node_id:
            raise WalOfAnotherNode(
                f"{key} in {self.store.url} is of the write-ahead log of node {header.node_id}, this is node "
                f"{self.node_id}: it was copied or renamed; move it away"
            )
        if (header.node_epoch, header.seq) != place:
            raise DamagedWal(
                f"{key} in {self.store.url} holds object {header.seq} of node epoch {header.node_epoch}: it was copied "
                "or renamed; restore the object that was there"
            )
        return header

    async def identity(self, lives: Lives) -> LogIdentity | None:
        """Returns the newest claim; None if no node has claimed the log."""
        for epoch in sorted(lives, reverse=True):
            for seq in _seqs_of_claims(lives[epoch]):
                header = await self.header((epoch, seq), lives[epoch][seq])
                if header is None or header.kind is not WalObjectKind.CLAIM:
                    continue
                found = await self.whole((epoch, seq), lives[epoch][seq])
                if found is not None:
                    return decode_log_identity(bytes(found[1]))
        return None

    async def newest_record(self) -> WalRecord | None:
        """Returns the last record of the newest bulk that has one; None when there is none, or the bulk is damaged."""
        lives = await self.lives()
        for epoch in sorted(lives, reverse=True):
            for seq, size_bytes in sorted(lives[epoch].items(), reverse=True):
                if size_bytes <= SEAL_BYTES:
                    continue
                try:
                    found = await self.whole((epoch, seq), size_bytes)
                    records = decode_bulk(*found) if found and found[0].kind is WalObjectKind.BULK else []
                except DamagedWal:
                    return None
                if records:
                    return records[-1]
        return None

    async def newest_header(self, lives: Lives, before_epoch: int) -> WalObjectHeader | None:
        """Returns the header of the newest object of all lives before an epoch; None when there is none, or it is
        gone."""
        epochs = [epoch for epoch in lives if epoch < before_epoch]
        if not epochs:
            return None
        place = max(epochs), max(lives[max(epochs)])
        return await self.header(place, lives[place[0]][place[1]])

    async def holds_records(self) -> bool:
        """Returns whether there may be records that are not committed."""
        lives = await self.lives()
        newest = await self.newest_header(lives, before_epoch=2**64)
        if newest is None:
            return False
        for epoch, sizes in lives.items():
            for seq, size_bytes in sizes.items():
                if (epoch, seq) < newest.kept or size_bytes <= SEAL_BYTES:
                    continue
                header = await self.header((epoch, seq), size_bytes)
                if header is not None and header.kind is WalObjectKind.BULK:
                    return True
        return False

    # -- taking over -------------------------------------------------------------------------------------

    async def seal(self, by_epoch: int, by_node: int) -> SealedLog:
        """Seals every life before ``by_epoch`` that may have uncommitted records, and says what to read. The caller is
        registered under that epoch, so no earlier life can commit, and so trim, any more. Raises DamagedWal,
        LogObjectsContradict."""
        patience = LogPatience(self._clock, f"{wal_prefix(self.node_id)} in {self.store.url}")
        while True:
            lives = {epoch: seqs for epoch, seqs in (await self.lives()).items() if epoch < by_epoch}
            if not lives:
                return EMPTY_LOG
            newest = await self.newest_header(lives, by_epoch)
            if newest is not None:
                break
            await patience.wait()
        runs: list[LifeRun] = []
        trimmed, end = newest.trimmed_position, max(newest.trimmed_position, newest.first_position)
        for epoch in sorted(epoch for epoch in lives if epoch >= newest.kept_epoch):
            life = await self._seal_life(
                epoch, kept_seq_of(epoch, newest), WalSeal(by_node, by_epoch, 0), lives
            )
            runs.append(life[0])
            end = max(end, life[1])
        needed = {(run.node_epoch, seq) for run in runs for seq in (*run.seqs, run.seal_seq)}
        others = tuple(
            (epoch, seq) for epoch, sizes in lives.items() for seq, size_bytes in sizes.items()
            if (epoch, seq) not in needed and not (epoch < newest.kept_epoch and size_bytes == SEAL_BYTES)
        )  # fmt: skip
        return SealedLog(tuple(runs), others, trimmed, end, lives)

    async def _seal_life(self, epoch: int, kept_seq: int, seal: WalSeal, lives: Lives) -> tuple[LifeRun, int]:
        """Seals one life, unless it is sealed. Returns the objects to read, and the position of the life's end.

        A listing may leave objects out, for a while or always. So what it should have is asked for by key: below a seal
        and in a gap before anything is called missing, and where a put of the seal is refused."""
        by_key: dict[int, int] = {}
        about = f"the life {self.key((epoch, 0)).rpartition('/')[0]} in {self.store.url}"
        patience = LogPatience(self._clock, about)
        while True:
            sizes = lives[epoch]
            newest = await self.header((epoch, max(sizes)), sizes[max(sizes)])
            if newest is None:
                by_key.pop(max(sizes), None)
            else:
                kept_seq = max(kept_seq, kept_seq_of(epoch, newest))
                found = await self._seal_of(epoch, sizes, kept_seq)
                if found is not None:
                    for seq in set(range(kept_seq, found.seq)).difference(sizes):
                        await self._look_up((epoch, seq), sizes)
                    return sealed_run(epoch, sizes, kept_seq, found.seq), found.first_position
                run = run_of_life(epoch, sizes, kept_seq)
                if max(sizes) > run.seal_seq and await self._look_up((epoch, run.seal_seq), by_key):
                    lives[epoch] = sizes | by_key
                    continue
                refuse_acknowledged_gap(run, newest, f"{self.key((epoch, run.seal_seq))} in {self.store.url}")
                end = await self._end_of(run, newest, sizes)
                if end is not None and await self._put_seal(run, kept_seq, newest, end, seal):
                    return run, end
                await self._look_up((epoch, run.seal_seq), by_key)
            listed = (await self.lives()).get(epoch, {}) | by_key
            if not listed:
                return LifeRun(epoch, (), 0), 0
            if listed == sizes:
                await patience.wait()
            else:
                patience = LogPatience(self._clock, about)
            lives[epoch] = listed

    async def _look_up(self, place: Place, sizes: dict[int, int]) -> bool:
        """Asks for an object by its key, and adds its size if there is one."""
        try:
            summary = await self._calls.run(self.store.head, self.key(place))
        except ObjectNotFound:
            return False
        sizes[place[1]] = summary.size_bytes
        return True

    async def _seal_of(self, epoch: int, sizes: dict[int, int], kept_seq: int) -> WalObjectHeader | None:
        for seq in possible_seals(sizes, kept_seq):
            header = await self.header((epoch, seq), sizes[seq])
            if header is not None and header.kind is WalObjectKind.SEAL:
                return header
        return None

    async def _end_of(self, run: LifeRun, newest: WalObjectHeader, sizes: dict[int, int]) -> int | None:
        """Returns the log position at which a run ends; None when its last object is gone meanwhile."""
        if not run.seqs:
            return newest.trimmed_position
        if run.seqs[-1] == newest.seq:
            return newest.end_position
        last = await self.header((run.node_epoch, run.seqs[-1]), sizes[run.seqs[-1]])
        return None if last is None else last.end_position

    async def _put_seal(
        self, run: LifeRun, kept_seq: int, newest: WalObjectHeader, end: int, seal: WalSeal
    ) -> bool:
        """Puts the seal. Returns false if an object was there already."""
        place = run.node_epoch, run.seal_seq
        seal = msgspec.structs.replace(seal, sealed_ms=self._clock.now_ms())
        buffers = self.encoded(
            WalObjectKind.SEAL, place, [encode_seal_body(seal)],
            first_position=end, trimmed_position=newest.trimmed_position,
            kept=(run.node_epoch, kept_seq) if newest.kept_epoch == run.node_epoch else newest.kept,
            answered_seq=run.seal_seq,
        )  # fmt: skip
        # Why a seal is never deleted: a client that was stopped could put its object under the free key later, and
        # believe that it still owns the log (decision 21).
        try:
            await self.put(place, buffers)
        except ObjectAlreadyExists:
            return False
        return True

    async def bulks(self, log: SealedLog) -> AsyncIterator[BulkRecords]:
        """Reads the objects to recover, in order, several ahead. An object that is gone was deleted by another process
        after its records were committed."""
        position = 0
        async for place, found in self._read_ahead(log):
            if found is None or found[0].kind is not WalObjectKind.BULK:
                continue
            header, body = found
            if header.first_position < position:
                raise DamagedWal(
                    f"{self.key(place)} in {self.store.url} begins at log position {header.first_position}, and the "
                    f"object before it ends at {position}: restore the objects that were there"
                )
            position = header.end_position
            try:
                records = decode_bulk(header, body)
            except DamagedWal as damage:
                raise damage_at(f"{self.key(place)} in {self.store.url}", damage, "object") from damage
            yield BulkRecords(place, position, records)

    async def _read_ahead(self, log: SealedLog) -> AsyncIterator[tuple[Place, Found]]:
        coming = _places_of(log)
        reading: deque[tuple[Place, int, asyncio.Task[Found]]] = deque()
        reading_bytes = 0
        try:
            while True:
                while len(reading) < READ_AHEAD_OBJECTS_MAX and (
                    not reading or reading_bytes < READ_AHEAD_BYTES_MAX
                ):
                    following = next(coming, None)
                    if following is None:
                        break
                    place, size_bytes = following
                    reading.append((place, size_bytes, asyncio.ensure_future(self.whole(place, size_bytes))))
                    reading_bytes += size_bytes
                if not reading:
                    return
                place, size_bytes, task = reading.popleft()
                found = await task
                reading_bytes -= size_bytes
                yield place, found
        finally:
            for _, _, task in reading:
                task.cancel()
            await asyncio.gather(*(task for _, _, task in reading), return_exceptions=True)


def _places_of(log: SealedLog) -> Iterator[tuple[Place, int]]:
    for run in log.runs:
        for seq in run.seqs:
            yield (run.node_epoch, seq), log.sizes[run.node_epoch][seq]


def _seqs_of_claims(sizes: dict[int, int]) -> list[int]:
    """Returns the places where the newest claim of a life may be: its newest object, or the one before its seal, else
    its first."""
    newest = max(sizes)
    seqs = [
        newest,
        *sorted((seq - 1 for seq, size_bytes in sizes.items() if size_bytes == SEAL_BYTES), reverse=True),
        0,
    ]
    return [seq for seq in dict.fromkeys(seqs) if sizes.get(seq, SEAL_BYTES) != SEAL_BYTES]
