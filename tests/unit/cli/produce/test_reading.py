import io
import os
import select
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from siltstone.cli.produce.reading import LineTooLong, ended_by_signals, read_lines


def lines_of(data: bytes, **limits: int) -> list[bytes]:
    return [line for read in read_lines(io.BytesIO(data), **limits) for line in read.lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\n", [b"a\r"]),
    ],
)
def test_lines_end_with_a_newline_or_the_input(data: bytes, lines: list[bytes]) -> None:
    assert lines_of(data) == lines


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_it_does_not_matter_how_the_bytes_come(step: int) -> None:
    data = b"one\ntwo two\n\nfour" * 20
    assert lines_of(data, read_bytes=step) == data.split(b"\n")
    assert sum(read.bytes_read for read in read_lines(io.BytesIO(data), read_bytes=step)) == len(data)


def test_a_pipe_that_pauses_is_noticed() -> None:
    """What has come is handed on at once: a person, or a log that is followed, must not wait for a full batch."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", buffering=0) as feed:
        feed.write(b"a\nb\nc")
        coming = read_lines(stream)
        first = next(coming)
        assert (first.lines, first.pauses) == ([b"a", b"b"], True)
        feed.write(b"d\n" + b"x\n" * 1000)
        feed.close()
        rest = [*coming]
        assert rest[0].lines[:2] == [b"cd", b"x"]
        assert not rest[0].pauses  # the end is there to be read


def test_a_file_never_pauses(tmp_path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" * 10)
    with path.open("rb") as stream:
        assert [read.pauses for read in read_lines(stream)] == [False]


def test_input_without_line_ends_is_refused_before_it_fills_the_memory() -> None:
    limits = {"read_bytes": 10, "line_bytes_max": 100}
    assert len(lines_of(b"x" * 100, **limits)[0]) == 100
    with pytest.raises(LineTooLong, match="line 3 is longer"):
        lines_of(b"a\nb\n" + b"x" * 101, **limits)


def test_a_signal_that_came_before_the_wait_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler may be due, though Python has looked for signals already. Here it does not raise, so the wait goes
    on until there is input."""
    woken: list[bool] = []
    selected = select.select

    def select_(waiting: list[int], *others: list[int]) -> Any:
        found = selected(waiting, *others)
        woken.append(waiting[0] not in found[0])
        if woken[-1]:
            os.write(writing, b"input")
        return found

    reading, writing = os.pipe()
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    monkeypatch.setattr(select, "select", select_)
    with os.fdopen(reading, "rb") as stream, ended_by_signals() as wait:
        signal.raise_signal(signal.SIGUSR1)
        wait(stream)
        assert stream.read1() == b"input"
    os.close(writing)
    signal.signal(signal.SIGUSR1, before)
    assert woken == [True, False]
    assert signal.set_wakeup_fd(-1) == -1, "what was there before is there again"


def test_in_another_thread_and_for_a_buffer_nothing_is_waited_for() -> None:
    def read() -> list[bytes]:
        with ended_by_signals() as wait:
            return [line for each in read_lines(io.BytesIO(b"a\nb"), wait) for line in each.lines]

    assert read() == [b"a", b"b"]
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(read).result() == [b"a", b"b"]
