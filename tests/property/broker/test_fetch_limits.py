"""What a fetch gives within its limits (item 29), against a plain model."""

from hypothesis import given, settings
from hypothesis import strategies as st

from support.broker.fake_partitions import FakePartition, gathered, sizes_of
from support.values.examples import examples

LIMITS = st.one_of(st.integers(-5, 60), st.just(2**31 - 1))
rows = st.lists(
    st.tuples(st.lists(st.integers(1, 20), max_size=5), st.booleans(), st.integers(0, 5)), max_size=20
)


def plain(partitions: list[FakePartition], offsets: list[int], limit: int, bytes_max: int) -> list[list[int]]:
    """The sizes of the batches of each partition, when as much is given as there is and may be."""
    given_bytes, found = 0, []
    for partition, offset in zip(partitions, offsets, strict=True):
        row: list[int] = []
        for batch in partition.batches[offset:]:
            is_first_of_all = not given_bytes and not row
            fits = sum(row) + len(batch) <= limit and given_bytes + sum(row) + len(batch) <= bytes_max
            if not fits and not is_first_of_all:
                break
            row.append(len(batch))
        given_bytes += sum(row)
        found.append(row)
    return found


@settings(max_examples=examples(100))
@given(rows, LIMITS, LIMITS)
def test_item_29_whole_batches_in_order_within_limits_wherever_they_lie(asked, limit, bytes_max):
    partitions = [FakePartition(sizes, is_cached=is_cached) for sizes, is_cached, _ in asked]
    offsets = [min(offset, len(sizes)) for sizes, _, offset in asked]
    found = gathered(partitions, offsets, limit=limit, bytes_max=bytes_max)
    sizes = sizes_of(found)
    assert sizes == plain(partitions, offsets, limit, bytes_max)
    assert [row.wanted.index for row in found] == list(range(len(partitions)))
    assert [row.size_bytes for row in found] == [sum(row) for row in sizes]
    first_bytes = next((row[0] for row in sizes if row), 0)
    assert sum(map(sum, sizes)) <= max(bytes_max, first_bytes)
