"""The row of the others adds up, and no counter falls."""

import random

import pytest

from siltstone.server.admin.largest_topics import LargestTopics, TopicShares


def looked(largest: LargestTopics, totals, deleted=(0, 0)) -> TopicShares:
    for _ in largest.look(totals, deleted):
        pass
    return largest.shares


def test_all_topics_are_shown_while_they_are_few():
    shares = looked(LargestTopics(3), {"a": (5, 1), "b": (0, 0)}, deleted=(7, 8))
    assert shares == TopicShares({"a": (5, 1), "b": (0, 0)}, (7, 8))


def test_of_many_topics_the_largest_are_shown():
    totals = {f"t{n}": (n, n) for n in range(3_500)}
    shares = looked(LargestTopics(1_000), totals)
    assert set(shares.shown) == {f"t{n}" for n in range(2_500, 3_500)}
    assert shares.others == (sum(range(2_500)), sum(range(2_500)))


def test_a_topic_that_gets_its_series_later_begins_at_nothing():
    largest = LargestTopics(1)
    assert looked(largest, {"a": (10, 0), "b": (4, 0)}) == TopicShares({"a": (10, 0)}, (4, 0))
    assert looked(largest, {"a": (10, 0), "b": (19, 0)}) == TopicShares({"a": (10, 0)}, (19, 0))
    assert looked(largest, {"a": (10, 0), "b": (21, 0)}) == TopicShares({"b": (0, 0)}, (31, 0))
    assert looked(largest, {"a": (10, 0), "b": (25, 0)}) == TopicShares({"b": (4, 0)}, (31, 0))


def test_a_deleted_topic_goes_to_the_others():
    largest = LargestTopics(2)
    looked(largest, {"a": (10, 2), "b": (4, 0)})
    assert looked(largest, {"b": (4, 0)}, deleted=(10, 2)) == TopicShares({"b": (4, 0)}, (10, 2))


@pytest.mark.parametrize("seed", range(5))
def test_ob03_whatever_happens_the_sum_is_right_and_nothing_falls(seed: int):
    rng, largest = random.Random(seed), LargestTopics(5)
    totals: dict[str, tuple[int, int]] = {}
    deleted, before = (0, 0), TopicShares({}, (0, 0))
    for step in range(300):
        for topic in rng.sample(sorted(totals), min(4, len(totals))):
            totals[topic] = totals[topic][0] + rng.randrange(50), totals[topic][1] + rng.randrange(9)
        if rng.random() < 0.3:
            totals[f"t{step}"] = (rng.randrange(100), 0)
        if totals and rng.random() < 0.1:
            gone = totals.pop(rng.choice(sorted(totals)))
            deleted = deleted[0] + gone[0], deleted[1] + gone[1]
        now = looked(largest, totals, deleted)
        for side in (0, 1):
            whole = deleted[side] + sum(total[side] for total in totals.values())
            assert now.others[side] + sum(shown[side] for shown in now.shown.values()) == whole
            assert now.others[side] >= before.others[side]
            assert all(
                now.shown[topic][side] >= was[side]
                for topic, was in before.shown.items()
                if topic in now.shown
            )
        assert len(now.shown) <= 5
        before = now
