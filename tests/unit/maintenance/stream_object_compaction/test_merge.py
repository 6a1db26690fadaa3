import msgspec
import pytest

from siltstone.maintenance.stream_object_compaction.merge import Merge, plan_merge
from siltstone.model.objects import ObjectRange
from siltstone.object_formats.block_index import BlockIndex, encode_index
from siltstone.object_formats.object_layout import trailer_bytes
from siltstone.offline.blocks.columns import Source, SourceUnusable
from support.maintenance.block_join import join_blocks
from support.maintenance.compaction_sources import entries_of
from support.maintenance.stream_object_world import SMALL, member, stream_of

Blocks = list[tuple[int, int, int]]


def source(object_id: int, blocks: Blocks) -> Source:
    entries = entries_of({0: blocks})
    size_bytes = sum(entry.size_bytes for entry in entries)
    metadata = member(object_id, blocks[0][0], blocks[-1][1], size_bytes)
    return Source(metadata, BlockIndex(encode_index(entries)))


FIRST: Blocks = [(0, 5, 700), (5, 10, 900)]
SECOND: Blocks = [(10, 30, 300), (30, 2**40, 100)]


def merged(
    *blocks: Blocks, start_offset: int = 0, merged_block_bytes_max: int = SMALL.merged_block_bytes_max
) -> Merge:
    sources = [source(7 + at, each) for at, each in enumerate(blocks)]
    stream = stream_of([each.metadata for each in sources], start_offset)
    used = msgspec.structs.replace(SMALL, merged_block_bytes_max=merged_block_bytes_max)
    return plan_merge(sources, {0: stream}, used)


def test_what_the_commit_says() -> None:
    merge = merged(FIRST, SECOND)
    new = merge.new_object(99)
    assert new.ranges == (ObjectRange(0, 99, 0, 2**40, 2_000, 2**40),)
    assert new.size_bytes == merge.size_bytes == 2_000 + len(merge.trailer)
    assert merge.source_ids == (7, 8)
    assert (merge.bytes_copied, [merge.part_bytes(part) for part in merge.parts]) == (
        1_600,
        [1_600, 400 + len(merge.trailer)],
    )
    assert merge.bytes_freed == 2 * 136 - len(merge.trailer), "two indexes and footers gave way to one"
    assert not merge.is_put


def test_small_ones_are_put() -> None:
    assert merged([(0, 5, 100)], [(5, 10, 100)]).is_put


def test_a_trimmed_head_is_left_out() -> None:
    merge = merged(FIRST, SECOND, start_offset=7)
    (held,) = merge.new_object(99).ranges
    assert (held.start_offset, held.size_bytes) == (5, 1_300)
    assert merge.bytes_freed > 700


@pytest.mark.parametrize(("limit", "counts"), [(1, [1, 1, 1, 1]), (1_200, [1, 2, 1]), (10_000, [4])])
def test_the_index_is_that_of_joined_blocks(limit: int, counts: list[int]) -> None:
    """Against ``block_join``, which joins a few entries by themselves."""
    entries = [entry for spec in (FIRST, SECOND) for entry in entries_of({0: spec})]
    index, at, position = [], 0, 0
    for count in counts:
        index.append(join_blocks(entries[at : at + count], position))
        at, position = at + count, index[-1].end_position
    assert merged(FIRST, SECOND, merged_block_bytes_max=limit).trailer == trailer_bytes(index, 2_000)


def test_an_index_that_is_not_what_the_image_says() -> None:
    damaged = msgspec.structs.replace(source(7, FIRST), metadata=member(7, 0, 11, 1_600))
    with pytest.raises(SourceUnusable, match="does not hold the offsets that the metadata says"):
        plan_merge([damaged], {0: stream_of([damaged.metadata])}, SMALL)


def test_objects_that_do_not_touch() -> None:
    sources = [source(7, FIRST), source(8, [(20, 30, 5)])]
    with pytest.raises(SourceUnusable, match="object 8 does not continue stream 0 at offset 10"):
        plan_merge(sources, {0: stream_of([each.metadata for each in sources])}, SMALL)
