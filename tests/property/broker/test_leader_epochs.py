"""Leader epochs from the metadata's owner ranges, against a list that says of each offset under which epoch it came."""

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.partitions.leader_epochs import EpochEnd, epoch_end, epoch_of
from siltstone.metadata import streams as stream_steps
from support.values.examples import examples

lives = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 12)),  # epochs on, records, trimmed to
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(200))
@given(lives, st.integers(0, 3))
def test_items_18_and_20_agree_with_a_list_of_epochs(taken, in_flight):
    stream = stream_steps.created(1, {})
    epoch_by_offset: list[int] = []
    epoch = -1
    for epochs_on, records, trimmed_to in taken:
        epoch += epochs_on
        stream = stream_steps.opened(stream, epoch, 7)
        epoch_by_offset += [epoch] * records
        stream = stream_steps.advanced(stream, len(epoch_by_offset))
        stream = stream_steps.trimmed(stream, min(trimmed_to, len(epoch_by_offset)))
    epoch_by_offset += [epoch] * in_flight  # confirmed, and not committed yet
    end = len(epoch_by_offset)
    start = stream.start_offset

    for offset in range(start, end):
        assert epoch_of(stream.owner_ranges, epoch, end, offset) == epoch_by_offset[offset]
    assert epoch_of(stream.owner_ranges, epoch, end, end) == epoch

    left = epoch_by_offset[start:]
    for asked in range(epoch):
        older = [one for one in left if one <= asked]
        expected = EpochEnd(older[-1], start + len(older)) if older else EpochEnd(asked, start)
        assert epoch_end(stream.owner_ranges, epoch, end, asked) == expected
    assert epoch_end(stream.owner_ranges, epoch, end, epoch) == EpochEnd(epoch, end)
    assert epoch_end(stream.owner_ranges, epoch, end, epoch + 1) == EpochEnd(-1, -1)
