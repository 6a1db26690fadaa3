"""Reading an object inside out, from bytes alone."""

import pytest

from siltstone.cli.inspecting.anatomy import ObjectDamaged, blocks_of, dissect
from siltstone.cli.inspecting.source import ObjectPlace
from siltstone.object_store.port import ObjectNotFound
from support.engine.batches import batch, object_bytes

BATCHES = [batch(1, 0, 3, 700), batch(1, 3, 2, 700), batch(2, 0, 1, 100)]


def source(raw: bytes) -> ObjectPlace:
    return ObjectPlace("here", len(raw), lambda start, end: raw[start:end])


def test_an_index_that_lies_before_the_tail_is_read_too() -> None:
    many = [batch(stream_id, 0, 1, 10) for stream_id in range(1_500)]
    anatomy = dissect(source(object_bytes(many)))
    assert len(anatomy.index) == 1_500
    assert anatomy.footer.index_bytes > 64 * 1024


def test_blocks_give_their_batches() -> None:
    of = source(object_bytes(BATCHES, block_size_bytes=1_000))
    contents = list(blocks_of(of, list(dissect(of).index)))
    assert [[found.base_offset for found in block.batches] for block in contents] == [[0, 3], [0]]
    assert bytes(contents[1].batches[0].payload) == BATCHES[2].payload


@pytest.mark.parametrize("at", [0, 100, -1, -20, -65, -100])
def test_any_flipped_byte_is_damage_with_the_place(at: int) -> None:
    raw = bytearray(object_bytes(BATCHES))
    raw[at] ^= 255
    of = source(bytes(raw))
    with pytest.raises(ObjectDamaged, match=r"^here is damaged, Damaged"):
        list(blocks_of(of, list(dissect(of).index)))


def test_what_is_gone_is_said_to_be_gone() -> None:
    def gone(start: int, end: int) -> bytes:
        raise ObjectNotFound("no such key")

    with pytest.raises(ObjectDamaged, match="missing from its bucket"):
        dissect(ObjectPlace("here", 100, gone))


def test_a_small_object_is_read_at_once_and_a_large_one_from_its_end() -> None:
    asked: list[tuple[int, int]] = []

    def noted(raw: bytes) -> ObjectPlace:
        return ObjectPlace(
            "here", len(raw), lambda start, end: (asked.append((start, end)), raw[start:end])[1]
        )

    small = object_bytes(BATCHES)
    dissect(noted(small))
    assert asked == [(0, len(small))]
    asked.clear()
    large = object_bytes([batch(1, 0, 1, 100_000)])
    dissect(noted(large))
    assert asked == [(len(large) - 64 * 1024, len(large))]
