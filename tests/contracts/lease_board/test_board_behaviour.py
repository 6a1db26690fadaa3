"""What every lease board does."""

from concurrent.futures import ThreadPoolExecutor

from siltstone.metadata.leases.board import Beat, NodeLoad, NodeSecret, PartitionLoad
from siltstone.model.secret import Secret

FIRST = Beat(3, 1, 1, "a life")


def test_an_empty_board_has_no_beats(open_again) -> None:
    assert open_again().beats() == ()


def test_all_nodes_see_the_newest_beat_of_each(open_again) -> None:
    one, other = open_again(), open_again()
    one.beat(FIRST)
    one.beat(Beat(3, 1, 2, "a life"))
    other.beat(Beat(1, 7, 2**62, "ein Leben"))
    assert one.beats() == other.beats() == (Beat(1, 7, 2**62, "ein Leben"), Beat(3, 1, 2, "a life"))


def test_n20_the_row_is_whose_beat_came_last_whatever_its_epoch(open_again) -> None:
    board = open_again()
    board.beat(Beat(3, 2, 50, "its second life"))
    board.beat(FIRST)
    assert board.beats() == (FIRST,)


def test_a_forgotten_node_has_no_row(open_again) -> None:
    board = open_again()
    board.beat(FIRST)
    board.beat(Beat(4, 1, 1, "another"))
    board.forget(3)
    board.forget(3)
    assert [beat.node_id for beat in board.beats()] == [4]
    board.beat(FIRST)
    assert len(board.beats()) == 2


def test_closing_one_leaves_the_others_and_the_rows(open_again) -> None:
    one, other = open_again(), open_again()
    one.beat(FIRST)
    one.close()
    assert other.beats() == (FIRST,) == open_again().beats()


def test_many_nodes_beat_at_once(open_again) -> None:
    boards = [open_again() for _ in range(4)]

    def beat(node_id: int) -> None:
        for number in range(10):
            boards[node_id].beat(Beat(node_id, 1, number, "life"))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(beat, node_id) for node_id in range(4)]:
            done.result()
    assert boards[0].beats() == tuple(Beat(node_id, 1, 9, "life") for node_id in range(4))


LOAD = NodeLoad(3, 1, 1_700_000_000_000, (PartitionLoad("ab" * 16, 7, 1.5, 2.5, 0.25),), (1.0, 2.0, 3.0))


def test_a_board_has_the_last_load_of_each_node(open_again) -> None:
    one, other = open_again(), open_again()
    assert one.loads() == ()
    one.put_load(NodeLoad(3, 1, 5))
    one.put_load(LOAD)
    other.put_load(NodeLoad(1, 9, 7))
    assert one.loads() == other.loads() == (NodeLoad(1, 9, 7), LOAD)
    assert one.beats() == (), "a load is no beat"


def test_a_forgotten_node_has_no_load(open_again) -> None:
    board = open_again()
    board.forget(3)
    board.put_load(LOAD)
    board.beat(FIRST)
    board.forget(3)
    assert (board.loads(), board.beats()) == ((), ())


SECRET = NodeSecret(3, 1, "a life", Secret("ab" * 32))


def test_nd03_all_nodes_see_the_secret_of_the_newest_life_of_each(open_again) -> None:
    one, other = open_again(), open_again()
    assert one.secrets() == ()
    one.put_secret(NodeSecret(3, 0, "an earlier life", Secret("cd" * 32)))
    one.put_secret(SECRET)
    other.put_secret(NodeSecret(1, 2**40, "ein Leben", Secret("ef" * 32)))
    assert one.secrets() == other.secrets() == (NodeSecret(1, 2**40, "ein Leben", Secret("ef" * 32)), SECRET)
    assert (one.beats(), one.loads()) == ((), ())
    assert "ab" * 32 not in repr(one.secrets())


def test_a_forgotten_node_has_no_secret(open_again) -> None:
    board = open_again()
    board.forget(3)
    board.put_secret(SECRET)
    board.forget(3)
    assert board.secrets() == ()
