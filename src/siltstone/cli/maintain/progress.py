"""The progress bar of a run on stderr: units or tasks, bytes, time left. It disappears when the run is done, and is not
shown where stderr is no terminal."""

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from siltstone.cli.maintain.tables import left_words
from siltstone.cli.output import remarks
from siltstone.cli.words import size_words
from siltstone.maintenance.pipeline.watch import Pace, Told
from siltstone.runtime.clock import Clock


class Progress:
    def __init__(self, clock: Clock) -> None:
        console = remarks()
        self._pace = Pace(clock)
        self._bars = Bars(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[moved]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """Prints a line above the bar; the line stays."""
        self._bars.console.print(text, style="dim", markup=False, soft_wrap=True)

    def tell(self, told: Told) -> None:
        if self._task is None:
            self._task = self._bars.add_task("", total=told.total, moved="")
        self._bars.update(
            self._task,
            description=f"{told.kind}, {told.step}",
            completed=told.done,
            total=told.total,
            moved=moved_words(told, self._pace.seconds_left(told)),
        )


def moved_words(told: Told, seconds_left: float | None) -> str:
    moved = f"{size_words(told.bytes_done)} of {size_words(told.bytes_total)}" if told.bytes_total else ""
    return ", ".join(filter(None, (moved, left_words(seconds_left))))
