from collections.abc import Iterator, Sequence
from threading import Lock

import pytest

from siltstone.offline.tasks.runner import InProcessRunner, RunFailed


def doubled(given: bytes) -> bytes:
    if given == b"bad":
        raise ValueError("no\nsuch input")
    return given * 2


@pytest.mark.parametrize("threads", [1, 4])
def test_results_stand_in_the_order_of_the_inputs(threads: int) -> None:
    heard: list[tuple[int, int]] = []
    results = InProcessRunner(threads).run(
        doubled, [b"a", b"b", b"c"], lambda done, total: heard.append((done, total))
    )
    assert results == [b"aa", b"bb", b"cc"]
    assert heard == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failure_is_told_in_one_line(threads: int) -> None:
    with pytest.raises(RunFailed, match=r"^ValueError: no such input$"):
        InProcessRunner(threads).run(doubled, [b"a", b"bad", b"c"])


@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_to_run(threads: int) -> None:
    assert InProcessRunner(threads).run(doubled, []) == []


def test_inputs_are_made_when_their_turn_comes() -> None:
    made: list[int] = []

    class Lazy(Sequence[bytes]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, at: int) -> bytes:  # type: ignore[override]
            if at >= 10:
                raise IndexError
            made.append(at)
            return b"bad" if at == 2 else b"a"

        def __iter__(self) -> Iterator[bytes]:
            return (self[at] for at in range(10))

    with pytest.raises(RunFailed):
        InProcessRunner().run(doubled, Lazy())
    assert made == [0, 1, 2]


def test_no_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        InProcessRunner(0)


def test_rule_9_threads_hold_no_more_inputs_than_there_are_of_them() -> None:
    lock = Lock()
    held = [0, 0]

    class Counted(Sequence[bytes]):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, at: int | slice) -> bytes:  # type: ignore[override]
            if at == 50:
                raise IndexError(at)
            with lock:
                held[0] += 1
                held[1] = max(held)
            return b"input"

    def let_go(given: bytes) -> bytes:
        with lock:
            held[0] -= 1
        return given

    assert len(InProcessRunner(2).run(let_go, Counted())) == 50
    assert held[0] == 0 < held[1] <= 2
