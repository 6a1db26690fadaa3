"""The marks in a bucket by which an older copy of the metadata is recognised (rule 11)."""

from typing import NamedTuple

import pytest

from siltstone.metadata.log_entry import NO_APPEND_ID
from siltstone.model.objects import object_key
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.metadata_mark import (
    ID_STEP,
    MARKS_PREFIX,
    NO_ID,
    BucketGuard,
    MetadataMark,
    MetadataOlderThanBucket,
    key_of_mark,
    mark_of_key,
    mark_of_state,
    marks_in,
    newest_of,
)
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from support.engine.faulty_store import Fault, FaultyStore

STORE_ID = "ab" * 16
X, Y, Z = (letter * 32 for letter in "cde")


class State(NamedTuple):
    """Of the metadata, as an image has it."""

    version: int
    next_object_id: int
    append_id: str = NO_APPEND_ID


class World:
    """One bucket, and the state of the metadata that each process reads. ``log`` has the append ids of its entries."""

    def __init__(self) -> None:
        self.bucket = MemoryStore(ManualClock())
        self.faulty = FaultyStore(self.bucket)
        self.now = MetadataMark(10, 5)
        self.log: dict[int, str] = {}
        self.reads = 0
        self.looks: list[int] = []

    def newest(self) -> MetadataMark:
        self.reads += 1
        return self.now

    def append_id_at(self, version: int) -> str | None:
        self.looks.append(version)
        return self.log.get(version)

    def process(self) -> BucketGuard:
        return BucketGuard(self.faulty, STORE_ID, self.newest, self.append_id_at)

    def requests(self) -> list[str]:
        made = [name for name, _ in self.faulty.history]
        self.faulty.history.clear()
        return made


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("append_id", [NO_ID, X])
def test_a_mark_is_its_key_and_keys_are_in_the_order_of_versions(append_id: str) -> None:
    mark = MetadataMark(2**63, 7, append_id)
    assert mark_of_key(key_of_mark(mark)) == mark
    assert key_of_mark(MetadataMark(9, 10**9)) < key_of_mark(MetadataMark(10, 0))


def test_the_keys_of_marks_are_these_for_ever() -> None:
    """Golden: buckets have them."""
    marks = "siltstone-metadata/00000000000000000012-00000000000000000345"
    assert mark_of_key(marks) == MetadataMark(12, 345)
    with_append_id = f"{marks}-00112233445566778899aabbccddeeff"
    assert mark_of_key(with_append_id) == MetadataMark(12, 345, "00112233445566778899aabbccddeeff")


def test_the_mark_of_a_state_has_the_append_id_of_its_entry_if_there_is_one() -> None:
    assert mark_of_state(State(3, 4, X)) == MetadataMark(3, 4, X)
    assert mark_of_state(State(3, 4)) == MetadataMark(3, 4, NO_ID)


@pytest.mark.parametrize(
    "key",
    [
        "siltstone-store.json",
        MARKS_PREFIX + "1-2",
        MARKS_PREFIX,
        key_of_mark(MetadataMark(1, 2)) + "-ab",
        "a/" + key_of_mark(MetadataMark(1, 2)),
    ],
)
def test_other_keys_are_no_marks(key: str) -> None:
    assert mark_of_key(key) is None


def test_a_bucket_that_nobody_marked_admits_all_metadata(world: World) -> None:
    world.process().admit()
    assert newest_of(marks_in(world.bucket)) == MetadataMark(0, 0)


def test_rule_11_metadata_below_the_version_of_a_mark_is_refused(world: World) -> None:
    world.process().note(State(10, 5))
    world.now = MetadataMark(9, 5)
    with pytest.raises(MetadataOlderThanBucket, match=r"version 10 .* at version 9, .* Restore the newest"):
        world.process().admit()
    world.now = MetadataMark(10, 5)
    world.process().admit()


@pytest.mark.parametrize("used", [5, 6, 5 + ID_STEP])
def test_rule_11_metadata_that_lacks_an_object_within_the_mark_is_refused(world: World, used: int) -> None:
    """The version of the mark is older than both, as after a kill."""
    world.process().cover(5, 1, State(10, 5))
    world.bucket.put(object_key(used), [b"newer"])
    world.now = MetadataMark(11, 5)
    with pytest.raises(MetadataOlderThanBucket, match=f"holds object {used}, "):
        world.process().admit()


def test_objects_of_ids_that_the_metadata_has_given_out_say_nothing(world: World) -> None:
    world.bucket.put(object_key(4), [b"ours"])
    world.process().cover(4, 1, State(10, 5))
    world.process().admit()


def test_another_process_that_writes_meanwhile_is_no_newer_metadata(world: World) -> None:
    """Its mark and its object were there when the bucket was asked, and the metadata is read after each."""
    world.process().cover(5, 3, State(10, 5))
    world.bucket.put(object_key(7), [b"just now"])
    states = iter([MetadataMark(10, 5), MetadataMark(12, 8)])
    BucketGuard(world.faulty, STORE_ID, lambda: next(states), world.append_id_at).admit()


def test_the_metadata_is_read_after_the_marks(world: World) -> None:
    guard = world.process()

    def list_and_move_on(prefix: str = "", after: str = ""):
        yield from MemoryStore.list(world.bucket, prefix, after)
        world.now = MetadataMark(20, 9)

    world.process().note(State(20, 9))
    world.bucket.list = list_and_move_on  # type: ignore[method-assign]
    guard.admit()


def test_the_bucket_is_asked_for_objects_once_then_each_admission_is_a_listing(world: World) -> None:
    world.process().cover(5, 1, State(10, 5))
    world.requests()
    guard = world.process()
    guard.admit()
    assert world.requests() == ["list", *["head"] * (1 + ID_STEP)]
    guard.admit()
    assert world.requests() == ["list"]


def test_metadata_that_was_exchanged_under_a_process_is_refused(world: World) -> None:
    guard = world.process()
    guard.admit()
    world.now = MetadataMark(9, 5)
    with pytest.raises(MetadataOlderThanBucket):
        guard.admit()


def test_ids_are_marked_in_steps_so_that_most_uploads_add_no_mark(world: World) -> None:
    guard = world.process()
    for first in range(5, 5 + 2 * ID_STEP):
        guard.cover(first, 1, State(first, first + 1))
        assert newest_of(marks_in(world.bucket)).ids_end > first
    assert world.requests().count("put") == 2


def test_a_mark_takes_away_those_it_surpasses_and_no_other(world: World) -> None:
    one, other = world.process(), world.process()
    world.now = MetadataMark(100, 500)
    one.cover(100, 1, State(10, 5))
    other.note(State(12, 90))
    assert newest_of(marks_in(world.bucket)) == MetadataMark(12, 101 + ID_STEP)
    assert len(marks_in(world.bucket)) == 2
    one.note(State(13, 200))
    assert marks_in(world.bucket) == [MetadataMark(13, 200)]


def test_ids_whose_mark_failed_are_marked_again(world: World) -> None:
    guard = world.process()
    world.faulty.fail_next(Fault.REFUSED)
    with pytest.raises(StoreTransient):
        guard.cover(5, 1, State(10, 5))
    guard.cover(5, 1, State(10, 5))
    assert newest_of(marks_in(world.bucket)).ids_end == 6 + ID_STEP


def test_a_metadata_that_cannot_be_read_admits_nobody(world: World) -> None:
    def unreadable() -> MetadataMark:
        raise StoreTransient("away")

    with pytest.raises(StoreTransient):
        BucketGuard(world.faulty, STORE_ID, unreadable, world.append_id_at).admit()


@pytest.mark.parametrize(
    ("there", "is_left"),
    [
        ((12, 199), False),
        ((13, 199), False),
        ((12, 200), False),
        ((14, 199), True),
        ((12, 201), True),
        ((14, 201), True),
    ],
)
def test_a_mark_is_surpassed_when_neither_number_is_higher(
    world: World, there: tuple[int, int], is_left: bool
) -> None:
    world.now = MetadataMark(100, 500)
    world.process().note(State(*there))
    world.process().note(State(13, 200))
    assert (MetadataMark(*there) in marks_in(world.bucket)) == is_left
    assert MetadataMark(13, 200) in marks_in(world.bucket)


def test_a_bucket_without_marks_is_asked_for_the_next_id_alone(world: World) -> None:
    world.bucket.put(object_key(6), [b"moved here by somebody"])
    world.process().admit()
    assert world.requests() == ["list", "head"]
    world.bucket.put(object_key(5), [b"newer"])
    with pytest.raises(MetadataOlderThanBucket, match="holds object 5, "):
        world.process().admit()


@pytest.mark.parametrize("begin", ["cover", "note"])
def test_rule_11_a_process_that_was_never_admitted_adds_no_mark(world: World, begin: str) -> None:
    """It started while the bucket was out of reach."""
    world.process().note(State(10, 5))
    world.now = MetadataMark(9, 5)
    guard = world.process()
    with pytest.raises(MetadataOlderThanBucket):
        guard.cover(5, 1, State(20, 6)) if begin == "cover" else guard.note(State(20, 6))
    assert marks_in(world.bucket) == [MetadataMark(10, 5)]


@pytest.fixture
def forked(world: World) -> World:
    """The bucket has seen entry 10 as append X; the log lost it, and continued to 12 with others."""
    world.log = {9: Z, 10: X}
    world.process().note(State(10, 5, X))
    world.log = {9: Z, 10: Y, 11: Y, 12: Y}
    world.now = MetadataMark(12, 5, Y)
    return world


def test_rule_11_a_log_that_lost_entries_and_went_on_with_others_is_refused(forked: World) -> None:
    with pytest.raises(
        MetadataOlderThanBucket, match=f"entry 10 .* as append {X}, and this log has append {Y}"
    ):
        forked.process().admit()


@pytest.mark.parametrize("then", ["cover", "note"])
def test_rule_11_a_process_that_had_the_log_open_adds_no_mark_and_deletes_none(
    forked: World, then: str
) -> None:
    """It was admitted before the log lost entries, or before another process marked them."""
    marks = marks_in(forked.bucket)
    forked.bucket.delete([key_of_mark(mark) for mark in marks])
    guard = forked.process()
    guard.admit()
    forked.bucket.put(key_of_mark(marks[0]), [b""])
    with pytest.raises(MetadataOlderThanBucket):
        guard.cover(50, 1, State(12, 51, Y)) if then == "cover" else guard.note(State(12, 5, Y))
    assert marks_in(forked.bucket) == marks


def test_a_mark_whose_entry_the_log_no_longer_has_is_not_compared(forked: World) -> None:
    """A snapshot contains it."""
    del forked.log[10]
    forked.process().admit()


def test_each_mark_is_compared_with_the_log_once(world: World) -> None:
    world.log, world.now = {10: X, 11: Y}, MetadataMark(10, 5, X)
    guard = world.process()
    guard.note(State(10, 5, X))
    for _ in range(3):
        guard.admit()
    assert world.looks == [10]
    world.now = MetadataMark(11, 5, Y)
    guard.note(State(11, 5, Y))
    guard.admit()
    assert world.looks == [10, 11]


def test_a_mark_of_an_older_program_is_not_compared(world: World) -> None:
    world.bucket.put(key_of_mark(MetadataMark(10, 5)), [b""])
    world.log = {10: Y}
    world.process().admit()
    assert world.looks == []


def test_a_mark_that_allows_ids_names_the_entry_too(world: World) -> None:
    world.log = {10: X}
    world.process().cover(5, 1, State(10, 6, X))
    assert marks_in(world.bucket) == [MetadataMark(10, 6 + ID_STEP, X)]
