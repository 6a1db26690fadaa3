"""Each anomaly is planted in a history that has none, and is found by its name."""

from collections.abc import Callable

import pytest

from support.cluster.cluster_history import (
    Acknowledged,
    ClusterHistory,
    CommitSeen,
    Committed,
    EndSeen,
    Polled,
    Read,
    anomalies_in,
)

PARTITION, GROUP = 0, "g"


def good() -> ClusterHistory:
    """Two leaders, one after the other; a consumer and a group that read what they wrote."""
    history = ClusterHistory()
    for offset in range(6):
        node_id = 0 if offset < 3 else 1
        history.read[PARTITION, offset] = Read(f"w:{offset}", node_id)
        history.acknowledged.append(
            Acknowledged((PARTITION, offset), f"w:{offset}", node_id, offset * 10, offset * 10 + 5)
        )
    history.polled = [
        Polled("c", PARTITION, 0, ((0, "w:0"), (1, "w:1"))),
        Polled("c", PARTITION, 1, ((2, "w:2"), (3, "w:3"))),
    ]
    history.ends = [EndSeen(PARTITION, 1, 4, 36)]
    history.commits = [Committed(GROUP, PARTITION, 2, 20, 25), Committed(GROUP, PARTITION, 4, 40)]
    history.commits_seen = [
        CommitSeen(GROUP, PARTITION, 2, 30),
        CommitSeen(GROUP, PARTITION, 4, 50),
        CommitSeen(GROUP, PARTITION, 2, 50),
    ]
    return history


def _lose(history: ClusterHistory) -> None:
    del history.read[PARTITION, 5]


def _leave_a_hole(history: ClusterHistory) -> None:
    del history.read[PARTITION, 1]
    history.acknowledged = [one for one in history.acknowledged if one.place[1] != 1]
    history.polled = []


def _replace(history: ClusterHistory) -> None:
    history.read[PARTITION, 1] = Read("v:0", 0)
    del history.acknowledged[1]


def _double(history: ClusterHistory) -> None:
    history.read[PARTITION, 6] = Read("w:5", 1)


def _reorder(history: ClusterHistory) -> None:
    history.read[PARTITION, 6] = Read("w:9", 1)
    history.read[PARTITION, 7] = Read("w:8", 1)


def _go_back(history: ClusterHistory) -> None:
    history.polled.append(Polled("c", PARTITION, 1, ((1, "w:1"),)))


def _pass_over(history: ClusterHistory) -> None:
    history.polled.append(Polled("c", PARTITION, 1, ((5, "w:5"),)))


def _tell_an_old_end(history: ClusterHistory) -> None:
    history.ends.append(EndSeen(PARTITION, 0, 3, 36))


def _acknowledge_at_both(history: ClusterHistory) -> None:
    history.read[PARTITION, 3] = Read("w:3", 0)


def _lower_epoch_after_a_higher(history: ClusterHistory) -> None:
    history.read[PARTITION, 6] = Read("w:6", 0)


def _forget_a_commit(history: ClusterHistory) -> None:
    history.commits_seen.append(CommitSeen(GROUP, PARTITION, -1, 30))


def _make_a_commit_up(history: ClusterHistory) -> None:
    history.commits_seen.append(CommitSeen(GROUP, PARTITION, 5, 50))


def _tell_zero(history: ClusterHistory) -> None:
    history.acknowledged.append(Acknowledged((PARTITION, 0), "w:6", 1, 70, 75))


PLANTED: dict[Callable[[ClusterHistory], None], str] = {
    _lose: "lost write",
    _leave_a_hole: "lost write",
    _replace: "inconsistent offset",
    _double: "duplicate",
    _reorder: "send nonmonotonic",
    _go_back: "poll nonmonotonic",
    _pass_over: "poll skip",
    _tell_an_old_end: "stale end",
    _acknowledge_at_both: "split brain",
    _lower_epoch_after_a_higher: "split brain",
    _forget_a_commit: "offset commit",
    _make_a_commit_up: "offset commit",
    _tell_zero: "spurious zero offset",
}


def test_a_good_history_has_none():
    assert anomalies_in(good()) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_anomaly_is_found(plant):
    history = good()
    plant(history)
    assert any(found.startswith(f"{PLANTED[plant]}:") for found in anomalies_in(history))
