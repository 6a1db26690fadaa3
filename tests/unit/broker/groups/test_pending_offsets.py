"""Pending offsets, held against a log of the same events that is read from its beginning, as Kafka decides it."""

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.groups.offsets_log.record import CommittedOffset, LogProducer
from siltstone.broker.groups.pending_offsets import PendingOffsets

AT = ("t", 0)
EVENTS = st.one_of(
    st.tuples(st.just("pending"), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.integers(1, 3)),
    st.tuples(st.just("abort"), st.integers(1, 3)),
    st.tuples(st.just("plain"), st.just(0)),
    st.tuples(st.just("delete"), st.just(0)),
)


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def by_the_log(events: list[tuple[str, int]]) -> int | None:
    """The offset after all events; each has its place in the log as offset."""
    stored: int | None = None
    pending: dict[int, int] = {}
    for place, (event, producer) in enumerate(events):
        if event == "pending":
            pending[producer] = place
        elif event == "plain":
            stored = place
        elif event == "delete":
            stored, pending = None, {}
        elif (found := pending.pop(producer, None)) is not None and event == "commit":
            stored = found if stored is None or found > stored else stored
    return stored


@given(st.lists(EVENTS, max_size=30))
def test_the_offset_that_is_later_in_the_log_stays(events: list[tuple[str, int]]) -> None:
    pending, stored = PendingOffsets(), None
    for place, (event, producer) in enumerate(events):
        if event == "pending":
            pending.add(LogProducer(producer, 0), AT, committed(place))
        elif event == "plain":
            pending.replaced(AT)
            stored = place
        elif event == "delete":
            pending.removed(AT)
            stored = None
        else:
            for at, found in pending.end(producer, commits=event == "commit"):
                assert at == AT
                stored = found.offset
    assert stored == by_the_log(events)


def test_what_is_written_again_is_what_may_still_count_in_its_order() -> None:
    pending = PendingOffsets()
    pending.add(LogProducer(1, 0), AT, committed(5))
    pending.replaced(AT)
    pending.add(LogProducer(2, 0), AT, committed(9))
    pending.add(LogProducer(3, 0), AT, committed(7))
    assert [(each.producer_id, offset.offset) for each, offset in pending.in_order(AT)] == [(2, 9), (3, 7)]
    assert pending.lowest(AT) == 7 and pending.producer_ids() == {1, 2, 3} and len(pending) == 3
    assert pending.end(3, commits=True) == [(AT, committed(7))]
    assert pending.end(2, commits=True) == [], "it is earlier in the log than what is committed now"
    assert pending.end(1, commits=True) == [] and not pending.partitions
