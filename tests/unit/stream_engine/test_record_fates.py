"""The table of docs/decisions/0042-records-that-fit-nowhere.md: for each way in which the stream of a record can have
changed in the metadata, what becomes of the record (rule 13)."""

import pytest

from siltstone.metadata import streams
from siltstone.stream_engine.record_fates import Fate, fate_of
from support.engine.batches import batch

NODE, OTHER = 0, 1
NEXT_STREAM_ID = 10
NEW = streams.created(1, {})


def appended(stream, node_id, epoch, end_offset):
    return streams.advanced(streams.opened(stream, epoch, node_id), end_offset)


OPEN = appended(NEW, NODE, 0, 10)
CLOSED = streams.closed(OPEN)
AT_OTHER = appended(CLOSED, OTHER, 1, 20)
BACK = appended(streams.closed(AT_OTHER), NODE, 2, 30)
AFTER_A_SINK = streams.loaded(CLOSED, 1, 20)
TRIMMED_BEYOND_ITS_END = streams.trimmed(streams.opened(NEW, 0, NODE), 100)


@pytest.mark.parametrize(
    ("stream", "epoch", "offsets", "fate"),
    [
        # open here, under the epoch of the record
        (OPEN, 0, (0, 10), Fate.COMMITTED),
        (OPEN, 0, (10, 12), Fate.REPLAYED),
        (OPEN, 0, (11, 12), Fate.AFTER_A_HOLE),
        (OPEN, 0, (9, 12), Fate.UNPROVED),
        # an opening that the metadata lacks
        (OPEN, 1, (10, 12), Fate.NEVER_OPENED),
        (OPEN, 1, (0, 5), Fate.NEVER_OPENED),
        (NEW, 0, (0, 5), Fate.NEVER_OPENED),
        (CLOSED, 1, (10, 12), Fate.NEVER_OPENED),
        (AT_OTHER, 2, (20, 22), Fate.NEVER_OPENED),
        # closed since: by a clean close, a replay, a hand-over
        (CLOSED, 0, (5, 10), Fate.COMMITTED),
        (CLOSED, 0, (10, 12), Fate.UNPROVED),
        # opened since by another node, and by this one again
        (AT_OTHER, 0, (0, 10), Fate.COMMITTED),
        (AT_OTHER, 0, (10, 12), Fate.UNPROVED),
        (AT_OTHER, 0, (5, 12), Fate.UNPROVED),
        (AT_OTHER, 1, (10, 12), Fate.UNPROVED),
        (BACK, 0, (0, 10), Fate.COMMITTED),
        (BACK, 0, (10, 12), Fate.UNPROVED),
        (BACK, 0, (30, 32), Fate.UNPROVED),
        (BACK, 2, (20, 30), Fate.COMMITTED),
        (BACK, 2, (30, 32), Fate.REPLAYED),
        (BACK, 2, (10, 15), Fate.UNPROVED),
        # a sink has appended since
        (AFTER_A_SINK, 0, (0, 10), Fate.COMMITTED),
        (AFTER_A_SINK, 0, (10, 12), Fate.UNPROVED),
        # trims: of what is committed, and beyond it, perhaps into a batch (T24)
        (streams.trimmed(OPEN, 4), 0, (0, 4), Fate.TRIMMED),
        (streams.trimmed(OPEN, 4), 0, (2, 8), Fate.COMMITTED),
        (streams.trimmed(AT_OTHER, 15), 0, (10, 12), Fate.TRIMMED),
        (streams.trimmed(AT_OTHER, 15), 0, (10, 17), Fate.UNPROVED),
        (TRIMMED_BEYOND_ITS_END, 0, (80, 100), Fate.TRIMMED),
        (TRIMMED_BEYOND_ITS_END, 0, (90, 110), Fate.REPLAYED),
        (TRIMMED_BEYOND_ITS_END, 0, (100, 110), Fate.REPLAYED),
        (streams.advanced(TRIMMED_BEYOND_ITS_END, 110), 0, (90, 110), Fate.COMMITTED),
        (streams.closed(streams.advanced(TRIMMED_BEYOND_ITS_END, 110)), 0, (90, 110), Fate.COMMITTED),
        (TRIMMED_BEYOND_ITS_END, 1, (0, 5), Fate.NEVER_OPENED),
        # deleted, and forgotten
        (streams.deleted(OPEN), 0, (10, 12), Fate.DELETED),
        (None, 0, (10, 12), Fate.DELETED),
    ],
)  # fmt: skip
def test_rule_13_the_fate_of_a_record(stream, epoch, offsets, fate):
    start, end = offsets
    record = batch(1, start, end - start, epoch=epoch)
    end_offset = 0 if stream is None else stream.end_offset
    assert fate_of(record, stream, NEXT_STREAM_ID, NODE, end_offset) is fate


def test_rule_13_ids_that_were_never_given_out_prove_nothing():
    record = batch(NEXT_STREAM_ID, 0, 1)
    assert fate_of(record, None, NEXT_STREAM_ID, NODE, 0) is Fate.NEVER_CREATED


def test_a_record_that_was_replayed_a_moment_ago_may_come_again():
    ends = 10
    for start, fate in [(10, Fate.REPLAYED), (12, Fate.REPLAYED), (10, Fate.COMMITTED), (12, Fate.COMMITTED)]:
        found = fate_of(batch(1, start, 2), OPEN, NEXT_STREAM_ID, NODE, ends)
        assert found is fate
        ends = max(ends, start + 2)


def test_what_is_refused():
    refused = {fate for fate in Fate if fate.is_refused}
    assert refused == {Fate.NEVER_CREATED, Fate.NEVER_OPENED, Fate.AFTER_A_HOLE, Fate.UNPROVED}
