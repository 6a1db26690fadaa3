"""Whom one observer suspects, by its own clock: polls at given times, beats as values."""

import pytest

from siltstone.cluster.suspicion import GAP_MS_MAX, POLLS_MIN, SESSION_MS, Suspicion, lives_to_watch, turn_of
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.leases.board import Beat
from support.metadata.metadata_world import MetadataWorld

ONE, TWO = NodeLife(1, 4, "one"), NodeLife(2, 1, "two")


class Observer:
    """Polls once a second; ``beating`` are the lives whose numbers rise with each poll."""

    def __init__(self, *lives: NodeLife) -> None:
        self.suspicion = Suspicion()
        self.lives = lives
        self.rows = {life.node_id: Beat(life.node_id, life.node_epoch, 1, life.incarnation) for life in lives}
        self.now_ms = 0.0

    def poll(self, *beating: NodeLife, after_ms: float = 1_000) -> tuple[NodeLife, ...]:
        self.now_ms += after_ms
        for life in beating:
            number = self.rows[life.node_id].number + 1
            self.rows[life.node_id] = Beat(life.node_id, life.node_epoch, number, life.incarnation)
        self.suspicion.polled(self.now_ms, self.now_ms, self.lives, self.rows.values())
        return self.suspicion.suspects()


@pytest.fixture
def observer() -> Observer:
    made = Observer(ONE, TWO)
    made.poll(ONE, TWO)
    return made


def test_n04_four_seconds_of_silence_are_nothing(observer) -> None:
    for _ in range(4):
        assert observer.poll(TWO) == ()
    assert observer.poll(ONE, TWO) == ()
    for _ in range(4):
        assert observer.poll(TWO) == (), "counted from the last beat"


def test_a_session_of_silence_makes_suspect_and_one_beat_ends_it(observer) -> None:
    seen = [observer.poll(TWO) for _ in range(6)]
    assert seen == [(), (), (), (), (ONE,), (ONE,)]
    assert observer.poll(ONE, TWO) == ()


def test_n09_two_may_be_suspect_at_once(observer) -> None:
    for _ in range(5):
        found = observer.poll()
    assert found == (ONE, TWO)


def test_a_node_that_never_beat_is_silent_from_when_it_was_first_looked_for() -> None:
    observer = Observer(ONE)
    observer.rows.clear()
    assert [observer.poll() for _ in range(6)] == [(), (), (), (), (), (ONE,)]


def test_n06_an_observer_that_was_stopped_judges_nobody_before_three_polls_and_a_session(observer) -> None:
    for _ in range(4):
        observer.poll()
    assert observer.poll(after_ms=60_000) == ()
    assert [observer.poll() for _ in range(5)] == [(), (), (), (), (ONE, TWO)]


def test_n06_a_session_seen_in_two_polls_is_not_enough() -> None:
    """The observer is slow, not stopped."""
    observer = Observer(ONE)
    observer.poll(ONE)
    assert POLLS_MIN == 3
    gap_ms = GAP_MS_MAX
    assert [observer.poll(after_ms=gap_ms) for _ in range(3)] == [(), (), (ONE,)]
    assert 2 * gap_ms > SESSION_MS


def test_n18_time_in_which_polls_failed_does_not_count(observer) -> None:
    """The board is out for a minute: nobody could beat."""
    observer.poll(TWO)
    observer.poll(TWO)
    for _ in range(60):
        observer.now_ms += 1_000
        observer.suspicion.poll_failed()
    assert [observer.poll(TWO) for _ in range(4)] == [(), (), (), (ONE,)], "2 s before, 3 s after"


def test_n18_the_board_is_back_and_so_are_the_beats(observer) -> None:
    for _ in range(4):
        observer.poll()
    observer.suspicion.poll_failed()
    assert observer.poll(after_ms=60_000) == ()
    assert observer.poll(ONE, TWO) == ()


def test_after_a_failure_three_polls_in_a_row_are_needed_again(observer) -> None:
    for _ in range(5):
        found = observer.poll()
    assert found == (ONE, TWO)
    observer.suspicion.poll_failed()
    assert observer.suspicion.suspects() == ()
    assert [observer.poll() for _ in range(3)] == [(), (), (ONE, TWO)]


@pytest.mark.parametrize(
    "zombie", [NodeLife(1, 3, "one"), NodeLife(1, 4, "a stranger"), NodeLife(1, 5, "one")],
    ids=["a lower epoch", "another incarnation", "a higher epoch"],
)  # fmt: skip
def test_n20_beats_of_another_life_do_not_count(observer, zombie) -> None:
    observer.rows[1] = Beat(1, zombie.node_epoch, 100, zombie.incarnation)
    for _ in range(5):
        found = observer.poll(zombie, TWO)
    assert found == (ONE,)


def test_n20_a_zombie_in_the_row_between_two_beats_makes_nobody_beat(observer) -> None:
    own = observer.rows[1]
    for step in range(5):
        observer.rows[1] = own if step % 2 else Beat(1, 3, step, "one")
        found = observer.poll(TWO)
    assert found == (ONE,), "its own number is what it was"


def test_n05_a_new_life_begins_with_no_silence(observer) -> None:
    for _ in range(4):
        observer.poll(TWO)
    observer.lives = (NodeLife(1, 5, "one again"), TWO)
    observer.rows[1] = Beat(1, 5, observer.rows[1].number, "one again")
    assert [observer.poll(TWO) for _ in range(5)] == [()] * 5


def test_who_is_not_watched_any_more_is_forgotten(observer) -> None:
    for _ in range(5):
        observer.poll()
    observer.lives = (TWO,)
    assert observer.poll() == (TWO,)
    observer.lives = (ONE, TWO)
    assert observer.poll() == (TWO,)


def test_n07_only_the_observer_s_own_clock_matters() -> None:
    """Two observers whose clocks are an hour apart see the same beats alike."""
    ahead, behind = Observer(ONE), Observer(ONE)
    ahead.now_ms, behind.now_ms = 3_600_000.0, -3_600_000.0
    for step in range(12):
        beating = (ONE,) if step in (0, 3, 4) else ()
        assert ahead.poll(*beating) == behind.poll(*beating)
    assert ahead.suspicion.suspects() == (ONE,)


def test_of_two_polls_the_shortest_time_between_the_looks_counts() -> None:
    """Each answer takes 900 ms, and the look at the board may have been at its end or at its beginning."""
    suspicion, row = Suspicion(), Beat(1, 4, 1, "one")
    for step in range(6):
        suspicion.polled(step * 1_000, step * 1_000 + 900, (ONE,), (row,))
    assert suspicion.suspects() == ()


def test_recoverers_and_fenced_nodes_are_not_watched() -> None:
    world = MetadataWorld()
    for node_id in range(5):
        world.register_reachable(node_id, f"life of {node_id}")
    world.fence(1)
    world.fail_over(2, by=3)
    watched = lives_to_watch(world.image, observer_id=0)
    assert sorted(watched, key=lambda life: life.node_id) == [
        NodeLife(3, 1, "life of 3"),
        NodeLife(4, 1, "life of 4"),
    ]


def test_the_live_node_with_the_lowest_id_acts_first() -> None:
    world = MetadataWorld()
    for node_id in range(5):
        world.register_reachable(node_id, f"life of {node_id}")
    world.fence(0)
    suspects = [NodeLife(2, 1, "life of 2")]
    assert [turn_of(node_id, world.image, suspects) for node_id in (1, 3, 4)] == [0, 1, 2]
