"""Key compaction as the rules say it, with a dict and lists: slow, and written without looking at how it is done.

Its rules are G1 to G35 of docs/scenarios.md. A stream is a list of batches; a pass gives another list.
"""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ModelRecord:
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True)
class ModelBatch:
    """``marker`` is "ABORT" or "COMMIT" for a control batch. ``horizon_ms``: time limit of its tombstones."""

    base: int
    end: int
    records: tuple[ModelRecord, ...]
    max_ms: int
    producer: int = -1
    transactional: bool = False
    marker: str = ""
    horizon_ms: int | None = None
    append_time: bool = False

    @property
    def is_data(self) -> bool:
        return not self.marker


@dataclass(frozen=True)
class Pass:
    start: int
    dirty: int
    bound: int
    now_ms: int
    horizon_ms: int
    expiration_ms: int
    keys_max: int


@dataclass
class Outcome:
    batches: list[ModelBatch]
    cleaned: int
    null_keys: int = 0
    changed: bool = field(default=False)


def compact(batches: list[ModelBatch], job: Pass) -> Outcome:
    outcomes = [_outcome(batches, at) for at in range(len(batches))]
    dirty = max(job.start, job.dirty)
    undecided = [b.base for b, outcome in zip(batches, outcomes, strict=True) if outcome == "UNDECIDED"]
    bound = max(dirty, min([job.bound, *undecided]))
    newest, mapped = _mapped(batches, outcomes, dirty, bound, job.keys_max)
    stay = _last_of_producers(batches, outcomes, job)
    result = Outcome([], mapped)
    for at, batch in enumerate(batches):
        left = _left_of(batches, at, outcomes[at], newest, mapped, job, result)
        must_stay = at == len(batches) - 1 or (at in stay and batch.end > job.start)
        if left.records or must_stay or (batch.base >= mapped and not batch.records):
            result.batches.append(left)
        result.changed |= left != batch
    result.changed |= len(result.batches) != len(batches)
    return result


def _outcome(batches: list[ModelBatch], at: int) -> str:
    """Returns the outcome of a transactional batch of data: the first marker of its producer after it."""
    batch = batches[at]
    if batch.marker or not batch.transactional:
        return ""
    for later in batches[at + 1 :]:
        if later.marker and later.records and later.producer == batch.producer:
            return later.marker
    return "UNDECIDED"


def _mapped(
    batches: list[ModelBatch], outcomes: list[str], dirty: int, bound: int, keys_max: int
) -> tuple[dict[bytes, int], int]:
    newest: dict[bytes, int] = {}
    for batch, outcome in zip(batches, outcomes, strict=True):
        if batch.marker or outcome == "ABORT":
            continue
        for record in batch.records:
            if record.key is None or not dirty <= record.offset < bound:
                continue
            if record.key not in newest and len(newest) == keys_max:
                return newest, record.offset
            newest[record.key] = record.offset
    return newest, bound


def _last_of_producers(batches: list[ModelBatch], outcomes: list[str], job: Pass) -> set[int]:
    """A producer that was idle for the expiration time is forgotten, with all it did before; a batch of a transaction
    alone does not show that, because the time of its marker counts."""
    stay: set[int] = set()
    oldest_ms = job.now_ms - job.expiration_ms
    for producer in {batch.producer for batch in batches} - {-1}:
        own = [at for at, batch in enumerate(batches) if batch.producer == producer]
        is_open = any(outcomes[at] == "UNDECIDED" for at in own)
        idle = [
            at for at in own if batches[at].max_ms <= oldest_ms and not (batches[at].is_data and outcomes[at])
        ]
        own = [at for at in own if at > max(idle, default=-1)]
        if not own or (batches[own[-1]].max_ms <= oldest_ms and not is_open):
            continue
        with_data = [at for at in own if batches[at].is_data]
        stay.add(with_data[-1] if with_data else own[-1])
    return stay


def _left_of(
    batches: list[ModelBatch], at: int, outcome: str, newest: dict[bytes, int], mapped: int, job: Pass, result: Outcome
) -> ModelBatch:  # fmt: skip
    batch = batches[at]
    if batch.end <= job.start:
        return _emptied(batch)
    if batch.base >= mapped or not batch.records:
        return batch
    if batch.marker:
        return _left_of_marker(batches, at, mapped, job)
    if outcome == "ABORT":
        return _emptied(batch) if batch.end <= mapped else batch
    kept: list[ModelRecord] = []
    for record in batch.records:
        if record.offset >= mapped or _stays(record, batch, newest, job):
            kept.append(record)
        elif record.key is None and record.offset >= job.start:
            result.null_keys += 1
    return _with_records(batch, tuple(kept), mapped, job) if kept else _emptied(batch)


def _with_records(batch: ModelBatch, kept: tuple[ModelRecord, ...], mapped: int, job: Pass) -> ModelBatch:
    horizon_ms = batch.horizon_ms
    has_tombstone = any(record.value is None and record.key is not None for record in kept)
    if has_tombstone and horizon_ms is None and batch.end <= mapped:
        horizon_ms = job.horizon_ms
    if kept == batch.records and horizon_ms == batch.horizon_ms:
        return batch
    max_ms = batch.max_ms if batch.append_time else max(record.timestamp_ms for record in kept)
    return replace(batch, records=kept, horizon_ms=horizon_ms, max_ms=max_ms)


def _stays(record: ModelRecord, batch: ModelBatch, newest: dict[bytes, int], job: Pass) -> bool:
    """Returns whether a record below the mapped bound stays."""
    if record.key is None or record.offset < job.start or newest.get(record.key, -1) > record.offset:
        return False
    expired = batch.horizon_ms is not None and job.now_ms >= batch.horizon_ms
    return record.value is not None or not expired


def _left_of_marker(batches: list[ModelBatch], at: int, mapped: int, job: Pass) -> ModelBatch:
    """G23: not while a batch of its transaction is there, an emptied one included."""
    marker = batches[at]
    for earlier in reversed(batches[:at]):
        if earlier.producer != marker.producer:
            continue
        if earlier.marker and earlier.records:
            break
        if earlier.is_data and earlier.transactional:
            return marker
    if marker.end > mapped:
        return marker
    if marker.horizon_ms is None:
        return replace(marker, horizon_ms=job.horizon_ms)
    return _emptied(marker) if job.now_ms >= marker.horizon_ms else marker


def _emptied(batch: ModelBatch) -> ModelBatch:
    return replace(batch, records=(), horizon_ms=None, marker="EMPTY" if batch.marker else "")


def state(batches: list[ModelBatch], start: int) -> dict[bytes, tuple[int, bytes]]:
    """Returns what a reader of committed records knows that begins at the start: the newest value of each key, and
    its offset."""
    held: dict[bytes, tuple[int, bytes]] = {}
    for at, batch in enumerate(batches):
        if batch.marker or _outcome(batches, at) in ("ABORT", "UNDECIDED"):
            continue
        for record in batch.records:
            if record.key is None or record.offset < start:
                continue
            if record.value is None:
                held.pop(record.key, None)
            else:
                held[record.key] = (record.offset, record.value)
    return held
