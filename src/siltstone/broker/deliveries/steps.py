"""The steps of a share group in a partition: acquire, acknowledge, release, time out, move. Each takes a progress and
returns the next one; nothing changes in a step that is refused. Pure.

=============  =========================================  ==========================================================
state          acquired by a member                       acknowledged by that member
=============  =========================================  ==========================================================
Available      Acquired, and its count rises by one       refused
Acquired       is passed over                             accept: Acknowledged; release: Available, or Archived at
                                                          the limit of deliveries; reject, gap: Archived; renew:
                                                          Acquired, for a whole time again
Acknowledged   is passed over                             refused
Archived       is passed over                             refused
=============  =========================================  ==========================================================

A lock that ends, and a session that ends, release. Scenarios SH.
"""

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

import msgspec
from msgspec.structs import replace

from siltstone.broker.deliveries.progress import DeliverySpan, DeliveryState, ProgressDraft, ShareProgress
from siltstone.kafka_protocol.error_code import ErrorCode

SPANS_PER_LOCK_MAX = 2
"""Between two records in flight there may be one span that is done with; more of them only if members acknowledge in
different ways what others hold up. Then nothing new is delivered until the start has moved."""


class AcknowledgeType(IntEnum):
    """The numbers are the protocol's. *Gap*: the offset has no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class FoundOffsets(msgspec.Struct, frozen=True):
    """What was read of the log: the batches from ``first`` to ``end``. ``batches``: first offset and end of each that
    has records for members, in order; all other offsets have none."""

    first: int
    end: int
    batches: tuple[tuple[int, int], ...]


class Acquisition(msgspec.Struct, frozen=True):
    """``records_max``: how many records the member wants; unless ``is_strict``, the batch in which that number is
    reached is delivered as a whole. ``locks_max``: how many may be in flight."""

    member_id: str
    until_ms: float
    records_max: int
    locks_max: int
    is_strict: bool = False


class AcquiredRange(msgspec.Struct, frozen=True):
    """``count``: how often the records were delivered, this time included."""

    first: int
    end: int
    count: int


class Acknowledged(msgspec.Struct, frozen=True):
    """A range of a request, up to and without ``end``: one type for all its offsets, or one for each."""

    first: int
    end: int
    types: Sequence[int]


def acquire(
    progress: ShareProgress, found: FoundOffsets, wanted: Acquisition
) -> tuple[ShareProgress, list[AcquiredRange]]:
    """Returns the ranges that are now the member's, in order."""
    taking = _Taking(progress, wanted)
    position = max(found.first, progress.start_offset)
    for first, end in found.batches:
        if end <= position:
            continue
        taking.pass_over(position, max(first, position))
        position = max(first, position)
        if not taking.take(position, end):
            return taking.draft.progress(), taking.ranges
        position = end
    taking.pass_over(position, found.end)
    return taking.draft.progress(), taking.ranges


class _Taking:
    def __init__(self, progress: ShareProgress, wanted: Acquisition) -> None:
        self.draft = ProgressDraft(progress)
        self.ranges: list[AcquiredRange] = []
        self._wanted = wanted
        self._left = wanted.records_max
        is_full = len(progress.spans) >= SPANS_PER_LOCK_MAX * wanted.locks_max
        self._new_left = 0 if is_full else max(0, wanted.locks_max - progress.in_flight)

    def pass_over(self, first: int, end: int) -> None:
        """There are no records for members: what is available there is done with."""
        self.draft.change(first, end, _archived_if_available)
        self._extend(max(first, self.draft.end_offset), end, _new(DeliveryState.ARCHIVED))

    def take(self, first: int, end: int) -> bool:
        """Takes of one batch what may be taken. Returns whether the next batch may be looked at."""
        if self._left <= 0:
            return False
        batch_end = end
        if self._wanted.is_strict:
            end = self._strict_end(first, end)
        known_end = min(self.draft.end_offset, end)
        self.draft.change(first, known_end, self._acquired)
        new_first = max(first, known_end)
        new_end = min(end, new_first + self._new_left)
        if new_first == self.draft.end_offset:
            self._new_left -= max(0, new_end - new_first)
            self._extend(
                new_first, new_end, self._acquired(_new(DeliveryState.AVAILABLE, new_first, new_end))
            )
        return new_end >= batch_end

    def _strict_end(self, first: int, end: int) -> int:
        """Returns where the number of records is reached."""
        left = self._left
        for span in self.draft.between(first, end):
            if span.state is not DeliveryState.AVAILABLE:
                continue
            if span.end - span.first >= left:
                return span.first + left
            left -= span.end - span.first
        return min(end, max(self.draft.end_offset, first) + left)

    def _extend(self, first: int, end: int, like: DeliverySpan) -> None:
        if first < end and first == self.draft.end_offset:
            self.draft.extend(replace(like, first=first, end=end))

    def _acquired(self, span: DeliverySpan) -> DeliverySpan:
        if span.state is not DeliveryState.AVAILABLE or span.first >= span.end:
            return span
        count = span.count + 1
        self._left -= span.end - span.first
        last = self.ranges[-1] if self.ranges else None
        if last is not None and (last.end, last.count) == (span.first, count):
            self.ranges[-1] = AcquiredRange(last.first, span.end, count)
        else:
            self.ranges.append(AcquiredRange(span.first, span.end, count))
        return DeliverySpan(
            span.first, span.end, DeliveryState.ACQUIRED, count, self._wanted.member_id, self._wanted.until_ms
        )


def _new(state: DeliveryState, first: int = 0, end: int = 0) -> DeliverySpan:
    return DeliverySpan(first, end, state)


def _archived_if_available(span: DeliverySpan) -> DeliverySpan:
    return _final(span, DeliveryState.ARCHIVED) if span.state is DeliveryState.AVAILABLE else span


def _final(span: DeliverySpan, state: DeliveryState) -> DeliverySpan:
    return DeliverySpan(span.first, span.end, state, span.count)


def _released(span: DeliverySpan, deliveries_max: int) -> DeliverySpan:
    state = DeliveryState.AVAILABLE if span.count < deliveries_max else DeliveryState.ARCHIVED
    return DeliverySpan(span.first, span.end, state, span.count)


def acknowledge(
    progress: ShareProgress,
    member_id: str,
    acknowledged: Sequence[Acknowledged],
    deliveries_max: int,
    renewed_until_ms: float,
) -> ShareProgress | ErrorCode:
    """The request has been checked by itself (``shares.acknowledging``). All of it is done, or nothing."""
    draft = ProgressDraft(progress)
    for each in acknowledged:
        if each.end > progress.end_offset:
            return ErrorCode.INVALID_REQUEST  # beyond what was ever delivered
        if each.end <= progress.start_offset:
            continue  # as in Kafka: the group is done with these records
        for first, end, kind in _runs(each, progress.start_offset):
            spans = draft.between(first, end)
            if any(not _is_held(span, member_id) for span in spans):
                return ErrorCode.INVALID_RECORD_STATE
            draft.change(
                first,
                end,
                lambda span, kind=kind: _after(span, kind, deliveries_max, renewed_until_ms),  # type: ignore[misc]
            )
    return draft.progress()


def _is_held(span: DeliverySpan, member_id: str) -> bool:
    return span.state is DeliveryState.ACQUIRED and span.member_id == member_id


def _runs(each: Acknowledged, start_offset: int) -> list[tuple[int, int, AcknowledgeType]]:
    """Returns the offsets from the start on as ranges of one type."""
    types = each.types
    if len(types) == 1:
        return [(max(each.first, start_offset), each.end, AcknowledgeType(types[0]))]
    runs: list[tuple[int, int, AcknowledgeType]] = []
    for offset, number in enumerate(types, each.first):
        if offset < start_offset:
            continue
        if runs and runs[-1][2] == number:
            runs[-1] = (runs[-1][0], offset + 1, runs[-1][2])
        else:
            runs.append((offset, offset + 1, AcknowledgeType(number)))
    return runs


def counted_types(acknowledged: Sequence[Acknowledged], start_offset: int) -> Counter[AcknowledgeType]:
    """Returns how many offsets are acknowledged as what; those before the start are not counted."""
    counts: Counter[AcknowledgeType] = Counter()
    for each in acknowledged:
        if each.end > start_offset:
            for first, end, kind in _runs(each, start_offset):
                counts[kind] += end - first
    return counts


def _after(
    span: DeliverySpan, kind: AcknowledgeType, deliveries_max: int, renewed_until_ms: float
) -> DeliverySpan:
    match kind:
        case AcknowledgeType.ACCEPT:
            return _final(span, DeliveryState.ACKNOWLEDGED)
        case AcknowledgeType.RELEASE:
            return _released(span, deliveries_max)
        case AcknowledgeType.RENEW:
            return replace(span, until_ms=renewed_until_ms)
        case _:
            return _final(span, DeliveryState.ARCHIVED)


def release_all(progress: ShareProgress, member_id: str, deliveries_max: int) -> ShareProgress:
    """The session of the member has ended."""
    return _release_where(progress, deliveries_max, member_id, float("-inf"))


def expire(progress: ShareProgress, now_ms: float, deliveries_max: int) -> ShareProgress:
    """Releases what is locked no longer."""
    return _release_where(progress, deliveries_max, None, now_ms)


def _release_where(
    progress: ShareProgress, deliveries_max: int, member_id: str | None, ended_ms: float
) -> ShareProgress:
    held = [
        span
        for span in progress.spans
        if span.state is DeliveryState.ACQUIRED and (span.member_id == member_id or span.until_ms <= ended_ms)
    ]
    if not held:
        return progress
    draft = ProgressDraft(progress)
    for span in held:
        draft.change(span.first, span.end, lambda each: _released(each, deliveries_max))
    return draft.progress()


def start_at(progress: ShareProgress, log_start_offset: int) -> ShareProgress:
    """The records before ``log_start_offset`` have been deleted from the partition."""
    if log_start_offset <= progress.start_offset:
        return progress
    draft = ProgressDraft(progress)
    draft.start_at(log_start_offset)
    return draft.progress()
