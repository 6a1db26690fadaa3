"""What a person sees while a long input is sent: on stderr, gone afterwards, silent where nobody looks."""

import os
import stat
import sys
from types import TracebackType
from typing import BinaryIO, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from siltstone.cli.output import remarks
from siltstone.cli.words import count_words, size_words
from siltstone.runtime.clock import Clock


class ProduceProgress:
    """Silent as well where the input comes from the same terminal."""

    def __init__(self, stream: BinaryIO, clock: Clock) -> None:
        console = remarks()
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._total_bytes = _size_of(stream)
        self._bytes_read = 0
        columns = [TextColumn("{task.fields[told]}")]
        bar = [BarColumn(bar_width=30)] if self._total_bytes is not None else []
        is_hidden = not console.is_terminal or stream.isatty()
        self._bars = Progress(
            *bar, *columns, TimeElapsedColumn(), console=console, transient=True, disable=is_hidden
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        self._task = self._bars.add_task("produce", total=self._total_bytes, told="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def tell(self, records: int, bytes_read: int) -> None:
        assert self._task is not None
        self._bytes_read += bytes_read
        seconds = max(0.001, (self._clock.monotonic_ms() - self._began_ms) / 1000)
        rate = count_words(int(records / seconds))
        told = f"{count_words(records)} records, {size_words(self._bytes_read)}, {rate}/s"
        self._bars.update(self._task, completed=self._bytes_read, told=told)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._bars.console.print(text, style="yellow", markup=False, soft_wrap=True)


def _size_of(stream: BinaryIO) -> int | None:
    """Of a file; None for what has no size."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # io.UnsupportedOperation is one
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def hint_at_terminal(stream: BinaryIO, topic: str) -> None:
    """Somebody who sits before an empty line should know what to do."""
    if stream.isatty() and sys.stderr.isatty():
        remarks().print(f"One record a line for {topic}; Ctrl-D ends.", style="dim", markup=False)
