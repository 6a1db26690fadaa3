"""The progress bar of ``siltstone produce`` on stderr. It disappears at the end, and is not shown where stderr is no
terminal."""

import os
import stat
import sys
from types import TracebackType
from typing import BinaryIO, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from siltstone.cli.output import remarks
from siltstone.cli.words import count_words, seconds_words, size_words
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.clock import Clock

SILENT_MS_MAX = 8 * SECOND_MS
"""A person sees within ten seconds that nothing happens. A broker that starts again answers sooner."""


class AnswerWatch:
    """Sees that a broker acknowledges nothing although batches were sent, and says so once in each such time."""

    def __init__(self, now_ms: float) -> None:
        self._since_ms = now_ms
        self._acknowledgements = 0
        self._is_said = False

    def trouble_was_said(self) -> None:
        """A reason is on the screen, and tells more than this line would."""
        self._is_said = True

    def seen(self, now_ms: float, acknowledgements: int, *, is_waiting: bool) -> str:
        """Returns the line to print, or nothing."""
        if acknowledgements != self._acknowledgements or not is_waiting:
            self._since_ms, self._acknowledgements, self._is_said = now_ms, acknowledgements, False
        if self._is_said or now_ms - self._since_ms < SILENT_MS_MAX:
            return ""
        self._is_said = True
        return (
            f"the broker has acknowledged nothing for {seconds_words((now_ms - self._since_ms) / 1000)}: still "
            "waiting; its log, and /readyz of its admin listener, say why"
        )


class ProduceProgress:
    """Not shown either when the input is typed at a terminal, where it would disturb the typing."""

    def __init__(self, stream: BinaryIO, clock: Clock) -> None:
        console = remarks()
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._total_bytes = _size_of(stream)
        self._bytes_read = 0
        columns = [TextColumn("{task.fields[sent]}")]
        bar = [BarColumn(bar_width=30)] if self._total_bytes is not None else []
        is_hidden = not console.is_terminal or stream.isatty()
        self._bars = Progress(
            *bar, *columns, TimeElapsedColumn(), console=console, transient=True, disable=is_hidden
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        self._task = self._bars.add_task("produce", total=self._total_bytes, sent="")
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
        sent = f"{count_words(records)} records, {size_words(self._bytes_read)}, {rate}/s"
        self._bars.update(self._task, completed=self._bytes_read, sent=sent)

    def say(self, text: str) -> None:
        """Prints a line above the bar; the line stays."""
        self._bars.console.print(text, style="yellow", markup=False, soft_wrap=True)


def _size_of(stream: BinaryIO) -> int | None:
    """Returns the size of a regular file; None for a pipe or a terminal."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # includes io.UnsupportedOperation
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def hint_at_terminal(stream: BinaryIO, topic: str) -> None:
    """Says at a terminal what to type."""
    if stream.isatty() and sys.stderr.isatty():
        remarks().print(
            f"Type one record per line for {topic}; Ctrl-D ends the input.", style="dim", markup=False
        )
