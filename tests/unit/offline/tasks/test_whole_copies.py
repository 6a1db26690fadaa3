"""The copy of one whole object: verified on its way, and harmless when it is made twice."""

from collections.abc import Iterator

import pytest

from siltstone.model.objects import object_key
from siltstone.offline.tasks.whole_copies import CODEC, WholeCopyInput, WholeCopyResult, run_whole_copy
from support.engine.faulty_store import Fault
from support.maintenance.copied_world import CopiedWorld, copied_world


@pytest.fixture
def world() -> Iterator[CopiedWorld]:
    with copied_world() as made:
        made.upload({0: [(0, 5, 300), (5, 9, 900)], 1: [(0, 3, 500)]})
        yield made


def copied(world: CopiedWorld, object_id: int = 0, *, part_bytes: int = 0) -> WholeCopyResult:
    """Copies the object from bucket 0 to 1."""
    given = WholeCopyInput(
        object_id=object_id,
        size_bytes=world.found(object_id).size_bytes,
        sources=tuple((each, world.stores[each].url) for each in world.places(object_id)),
        target_url=world.stores[1].url,
        part_bytes_min=part_bytes,
    )
    return CODEC.decode_result(run_whole_copy(CODEC.encode_input(given)))


@pytest.mark.parametrize("part_bytes", [0, 1, 600, 10**6])
def test_the_copy_has_the_same_bytes_and_a_second_one_writes_nothing(
    world: CopiedWorld, part_bytes: int
) -> None:
    done = copied(world, part_bytes=part_bytes)
    assert done.failure is None and done.bytes_written == world.found(0).size_bytes
    assert world.copy(0, 1) == world.copy(0, 0)
    again = copied(world, part_bytes=part_bytes)
    assert (again.failure, again.bytes_written) == (None, 0 if part_bytes in (1, 600) else done.bytes_written)
    assert [*world.stores[1].list_multipart()] == []


@pytest.mark.parametrize("position", [100, -80, -1], ids=["block", "index", "footer"])
def test_damage_is_never_copied(world: CopiedWorld, position: int) -> None:
    world.flip(0, 0, position)
    failure = copied(world).failure
    assert failure is not None and failure.object_id == 0
    assert object_key(0) not in world.keys_of(1)


@pytest.mark.parametrize("position", [100, -80], ids=["block", "index"])
def test_what_is_there_and_damaged_is_replaced(world: CopiedWorld, position: int) -> None:
    copied(world)
    world.flip(0, 1, position)
    assert copied(world).bytes_written == world.found(0).size_bytes
    assert world.copy(0, 1) == world.copy(0, 0)


def test_a_copy_of_many_parts_that_fails_leaves_no_upload(world: CopiedWorld) -> None:
    world.stores[1].fail_next(None, Fault.DENIED, call="upload_part")
    failure = copied(world, part_bytes=1).failure
    assert failure is not None and "StoreDenied" in failure.reason
    assert [*world.stores[1].store.list_multipart()] == [] and world.keys_of(1) == set()
