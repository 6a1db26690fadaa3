"""Before ``siltstone metadata copy`` copies anything."""

from pathlib import Path

import pytest

from siltstone.cli.metadata.copy import WATCHED_MS, NodesLive, _refuse_beside_nodes
from siltstone.metadata.leases.board import Beat, MemoryBoard
from siltstone.runtime.clock import ManualClock
from support.processes.cli import assert_one_line, run

SILENT, OTHER = Beat(1, 1, 50, "life"), Beat(2, 1, 9, "life")


class BeatingClock(ManualClock):
    """While it blocks, ``beats`` arrive at the board."""

    def __init__(self, board: MemoryBoard, *beats: Beat) -> None:
        super().__init__()
        self.blocked: list[float] = []
        self._board, self._beats = board, beats

    def block_ms(self, duration_ms: float) -> None:
        self.blocked.append(duration_ms)
        for beat in self._beats:
            self._board.beat(beat)


def board_of(*beats: Beat) -> MemoryBoard:
    board = MemoryBoard()
    for beat in beats:
        board.beat(beat)
    return board


@pytest.mark.parametrize("left", [(), (SILENT, OTHER)])
def test_beats_of_nodes_that_have_ended_hold_nothing_up(left: tuple[Beat, ...]) -> None:
    board = board_of(*left)
    clock = BeatingClock(board, *left)
    _refuse_beside_nodes(board, clock)
    assert clock.blocked == [WATCHED_MS]


def test_nodes_that_beat_meanwhile_are_named() -> None:
    board = board_of(SILENT, OTHER)
    newer = (Beat(1, 1, 51, "life"), Beat(3, 1, 1, "new"))
    with pytest.raises(NodesLive, match=r"^node 1, 3 of the store is running; stop every node") as refused:
        _refuse_beside_nodes(board, BeatingClock(board, *newer))
    assert refused.value.node_ids == (1, 3)


def test_a_place_for_the_copy_is_a_url_of_postgresql(tmp_path: Path) -> None:
    refused = run("metadata", "copy", "--to", "sqlite:///x/y", "--store", tmp_path)
    assert_one_line(refused, 2, "is no place for a copy of the metadata; write postgresql://")
    assert not any(tmp_path.iterdir())
