"""The steps of a share group in a partition against a plain model: one entry for each record."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from siltstone.broker.deliveries.kept import (
    batches_of,
    changed_batches,
    has_changed,
    progress_from,
    with_batches,
    without_locks,
)
from siltstone.broker.deliveries.progress import DeliveryState, ShareProgress
from siltstone.broker.deliveries.steps import (
    Acknowledged,
    AcknowledgeType,
    Acquisition,
    FoundOffsets,
    acknowledge,
    acquire,
    expire,
    release_all,
    start_at,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from support.values.examples import examples

OFFSETS, LOCKS, DELIVERIES, LOCK_MS = 60, 12, 3, 10
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
members = st.sampled_from(["m1", "m2"])
Entry = tuple[DeliveryState, int, str, float]


class RecordByRecord:
    """Offset → state, deliveries, member, end of the lock; from ``start`` up to the last delivered offset."""

    def __init__(self) -> None:
        self.start = 0
        self.of: dict[int, Entry] = {}

    @property
    def end(self) -> int:
        return max(self.of, default=self.start - 1) + 1

    def moved(self) -> None:
        while self.start in self.of and self.of[self.start][0] in (ACKNOWLEDGED, ARCHIVED):
            del self.of[self.start]
            self.start += 1

    def released(self, offset: int) -> None:
        _, count, _, _ = self.of[offset]
        self.of[offset] = (AVAILABLE if count < DELIVERIES else ARCHIVED, count, "", 0)

    def acquire(self, found: FoundOffsets, wanted: Acquisition) -> list[tuple[int, int]]:
        taken: list[tuple[int, int]] = []
        flying = sum(entry[0] in (AVAILABLE, ACQUIRED) for entry in self.of.values())
        room = LOCKS - flying
        of_batch = {
            offset: number
            for number, (first, end) in enumerate(found.batches)
            for offset in range(first, end)
        }
        full_in = None
        for offset in range(max(found.first, self.start), found.end):
            number, known = of_batch.get(offset), self.of.get(offset)
            if number is None:
                if known is None:
                    if offset == self.end:
                        self.of[offset] = (ARCHIVED, 0, "", 0)
                elif known[0] is AVAILABLE:
                    self.of[offset] = (ARCHIVED, known[1], "", 0)
                continue
            is_full = len(taken) >= wanted.records_max
            if is_full and (wanted.is_strict or full_in != number):
                break
            if known is None and room <= 0:
                break
            if known is None or known[0] is AVAILABLE:
                room -= known is None
                count = 1 if known is None else known[1] + 1
                self.of[offset] = (ACQUIRED, count, wanted.member_id, wanted.until_ms)
                taken.append((offset, count))
            if len(taken) >= wanted.records_max and full_in is None:
                full_in = number
        self.moved()
        return taken


class Deliveries(RuleBasedStateMachine):
    """``kept``: what another node would read from the log of changes."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = ShareProgress(0)
        self.model = RecordByRecord()
        self.kept = ShareProgress(0)
        self.now_ms = 0

    def take(self, after: ShareProgress) -> None:
        changes = list(changed_batches(self.progress, after))
        if has_changed(self.progress, after):
            self.kept = with_batches(self.kept, after.start_offset, changes)
        else:
            assert not changes
        self.progress = after

    @rule(
        cuts=st.sets(st.integers(0, 20), min_size=2, max_size=6),
        holes=st.sets(st.integers(0, 4)),
        wanted=st.integers(1, 15),
        is_strict=st.booleans(),
        member=members,
    )
    def acquire(self, cuts: set[int], holes: set[int], wanted: int, is_strict: bool, member: str) -> None:
        first = self.progress.next_offset
        edges = [first + cut for cut in sorted(cuts)]
        pairs = pairwise(edges)
        batches = tuple(pair for number, pair in enumerate(pairs) if number not in holes)
        found = FoundOffsets(first, edges[-1], batches)
        asked = Acquisition(member, self.now_ms + LOCK_MS, wanted, LOCKS, is_strict)
        after, ranges = acquire(self.progress, found, asked)
        told = [(offset, each.count) for each in ranges for offset in range(each.first, each.end)]
        self.take(after)
        assert told == self.model.acquire(found, asked)

    @rule(
        first=st.integers(-3, 12),
        types=st.lists(st.sampled_from(list(AcknowledgeType)), min_size=1, max_size=6),
        length=st.integers(1, 12),
        member=members,
    )
    def acknowledge(self, first: int, types: list[AcknowledgeType], length: int, member: str) -> None:
        first = max(0, self.progress.start_offset + first)
        end = first + (length if len(types) == 1 else len(types))
        until_ms = self.now_ms + LOCK_MS
        after = acknowledge(self.progress, member, [Acknowledged(first, end, types)], DELIVERIES, until_ms)
        offsets = [offset for offset in range(first, end) if offset >= self.model.start]
        kinds = dict(zip(range(first, end), types * (end - first) if len(types) == 1 else types, strict=True))
        if end > self.model.end:
            assert after is ErrorCode.INVALID_REQUEST
        elif not offsets or any(
            self.model.of[each][0] is not ACQUIRED or self.model.of[each][2] != member for each in offsets
        ):
            assert after is ErrorCode.INVALID_RECORD_STATE
        else:
            assert isinstance(after, ShareProgress)
            for offset in offsets:
                count, kind = self.model.of[offset][1], kinds[offset]
                if kind is AcknowledgeType.RELEASE:
                    self.model.released(offset)
                elif kind is AcknowledgeType.RENEW:
                    self.model.of[offset] = (ACQUIRED, count, member, until_ms)
                else:
                    final = ACKNOWLEDGED if kind is AcknowledgeType.ACCEPT else ARCHIVED
                    self.model.of[offset] = (final, count, "", 0)
            self.model.moved()
            self.take(after)

    @rule(member=members)
    def end_session(self, member: str) -> None:
        for offset, entry in list(self.model.of.items()):
            if entry[0] is ACQUIRED and entry[2] == member:
                self.model.released(offset)
        self.model.moved()
        self.take(release_all(self.progress, member, DELIVERIES))

    @rule(ms=st.integers(1, 8))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        for offset, entry in list(self.model.of.items()):
            if entry[0] is ACQUIRED and entry[3] <= self.now_ms:
                self.model.released(offset)
        self.model.moved()
        self.take(expire(self.progress, self.now_ms, DELIVERIES))

    @rule(by=st.integers(1, 5))
    def log_start_moves(self, by: int) -> None:
        start = self.model.start + by
        self.model.of = {offset: entry for offset, entry in self.model.of.items() if offset >= start}
        self.model.start = start
        self.model.moved()
        self.take(start_at(self.progress, start))

    @rule()
    def another_node_goes_on(self) -> None:
        """The locks are gone, and the counts are what the log has."""
        assert self.kept == without_locks(self.progress)
        self.progress = self.kept
        self.model.of = {
            offset: (AVAILABLE, entry[1] - 1, "", 0) if entry[0] is ACQUIRED else entry
            for offset, entry in self.model.of.items()
            if offset < self.progress.end_offset
        }

    @invariant()
    def is_as_record_by_record(self) -> None:
        found = {
            offset: (span.state, span.count, span.member_id, span.until_ms)
            for span in self.progress.spans
            for offset in range(span.first, span.end)
        }
        assert self.progress.start_offset == self.model.start
        assert found == self.model.of

    @invariant()
    def spans_are_whole(self) -> None:
        spans = self.progress.spans
        assert not spans or spans[0].first == self.progress.start_offset
        assert not spans or not spans[0].state.is_final
        for left, right in pairwise(spans):
            assert left.end == right.first and not left.is_like(right)
        assert progress_from(self.progress.start_offset, batches_of(self.progress)) == without_locks(
            self.progress
        )


def test_the_steps_are_those_of_single_records() -> None:
    run_state_machine_as_test(Deliveries, settings=settings(deadline=None, max_examples=examples(100)))
