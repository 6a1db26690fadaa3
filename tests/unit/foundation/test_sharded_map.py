from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.foundation.sharded_map import SHARD_COUNT, ShardedMap, _shard_of, by_shard
from support.values.examples import examples

# Few keys, some sharing a shard, so that sets and deletions meet.
INT_KEYS = st.sampled_from([0, 1, 2, SHARD_COUNT, SHARD_COUNT + 1, 5 * SHARD_COUNT, 2**62])
KEYS = st.one_of(INT_KEYS, st.sampled_from(["", "a", "b", "topic/0", "\ud800"]))
STEPS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers())), max_size=30)


def same(sharded: Mapping, model: dict) -> None:
    assert dict(sharded.items()) == model
    assert len(sharded) == len(model)
    assert sorted(map(str, sharded)) == sorted(map(str, model))
    assert all(key in sharded and sharded[key] == value for key, value in model.items())
    assert "not there" not in sharded and sharded.get(77) is None


@settings(max_examples=examples(60))
@given(batches=st.lists(STEPS, max_size=5))
def test_behaves_like_a_dict_and_older_maps_never_change(batches) -> None:
    versions = [(ShardedMap(), {})]
    for steps in batches:
        sharded, model = versions[-1][0].draft(), dict(versions[-1][1])
        for key, value in steps:
            if value is not None:
                sharded[key] = value
                model[key] = value
            elif key in model:
                del sharded[key]
                del model[key]
            else:
                with pytest.raises(KeyError):
                    del sharded[key]
        same(sharded, model)
        versions.append((sharded.frozen(), model))
    for sharded, model in versions:
        same(sharded, model)


def test_a_draft_that_goes_on_after_freezing_leaves_the_frozen_map_alone() -> None:
    draft = ShardedMap([(1, "one")]).draft()
    draft[1] = "two"
    frozen = draft.frozen()
    draft[1] = "three"
    assert (frozen[1], draft[1]) == ("two", "three")


def test_a_draft_copies_only_the_shards_it_changes() -> None:
    before = ShardedMap((key, key) for key in range(4 * SHARD_COUNT))
    draft = before.draft()
    draft[7] = -7
    after = draft.frozen()
    copied = [number for number in range(SHARD_COUNT) if before._shards[number] is not after._shards[number]]
    assert copied == [7]


def test_items_given_twice_count_once() -> None:
    assert len(ShardedMap([("k", 1), ("k", 2)])) == 1
    assert ShardedMap([("k", 1), ("k", 2)])["k"] == 2


def test_a_map_knows_what_it_was_made_from_without_a_change() -> None:
    first = ShardedMap([("a", 1)])
    draft = first.draft()
    same_again = draft.frozen()
    draft["b"] = 2
    changed = draft.frozen()
    assert same_again.is_unchanged_from(first) and first.is_unchanged_from(same_again)
    assert not changed.is_unchanged_from(first)
    assert changed.draft().frozen().is_unchanged_from(changed)
    del draft["b"]
    assert not draft.frozen().is_unchanged_from(changed)
    assert not ShardedMap([("a", 1)]).is_unchanged_from(first)


def test_what_changed_from_one_map_to_another() -> None:
    before = ShardedMap((key, (key,)) for key in range(4 * SHARD_COUNT))
    draft = before.draft()
    draft[7] = (-7,)
    draft[SHARD_COUNT + 9] = before[SHARD_COUNT + 9]
    draft[10 * SHARD_COUNT] = (1,)
    del draft[11]
    after = draft.frozen()
    assert dict(after.changed_from(before)) == {7: (-7,), 10 * SHARD_COUNT: (1,)}
    assert dict(before.changed_from(after)) == {7: (7,), 11: (11,)}
    assert list(after.changed_from(after)) == list(after.draft().frozen().changed_from(after)) == []
    assert dict(ShardedMap([(1, "one")]).changed_from(ShardedMap())) == {1: "one"}


def test_keys_in_the_order_of_their_shards_touch_each_shard_once() -> None:
    keys = list(range(5_000))
    ordered = by_shard(keys)
    assert sorted(ordered) == keys
    shards = [_shard_of(key) for key in ordered]
    assert shards == sorted(shards)
    assert by_shard(["b", "a"]) in (["a", "b"], ["b", "a"])


def test_a_shard_is_copied_once_and_only_when_it_changes() -> None:
    """An image of 100,000 streams is copied with every entry of the log: only what changes may cost anything."""
    before = ShardedMap([(0, "a"), (1, "b")])
    draft = before.draft()
    with pytest.raises(KeyError):
        del draft[2]
    assert draft._shards is before._shards
    draft[0] = "c"
    own = draft._shards[_shard_of(0)]
    assert own is not before._shards[_shard_of(0)]
    draft[SHARD_COUNT] = "d"
    assert draft._shards[_shard_of(SHARD_COUNT)] is own
    assert draft._shards[_shard_of(1)] is before._shards[_shard_of(1)]
    assert (dict(before.items()), len(before)) == ({0: "a", 1: "b"}, 2)
    assert dict(draft.frozen().items()) == {0: "c", SHARD_COUNT: "d", 1: "b"}


@pytest.mark.parametrize("keys", [[5, 1024, 0, 2**40], ["a", "b" * 9], []])
def test_values_of_many_keys_come_in_their_order(keys: list[int | str]) -> None:
    items = [(key, f"value of {key}") for key in keys]
    made = ShardedMap([*items, *[(7, "seven")][: len(keys) % 2]])
    assert made.values_of(keys[::-1]) == [value for _, value in items[::-1]]
