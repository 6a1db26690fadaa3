"""The progress bar of a run on stderr: units or tasks, bytes, time left. It disappears when the run is done, and is not
shown where stderr is no terminal. A bucket that does not answer is reported above the bar, because the bar then does
not move."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from siltstone.carrying.pipeline.watch import RunPace, StepProgress
from siltstone.cli.maintain.tables import left_words
from siltstone.cli.output import remarks
from siltstone.cli.words import size_words
from siltstone.object_store import bucket_watch
from siltstone.object_store.bucket_watch import looking
from siltstone.offline.opening.store import Store


class LogHandler(logging.Handler):
    """Says what a logger would write: these commands have no log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


class Progress:
    def __init__(self, store: Store) -> None:
        clock = store.context.clock
        self._looking = looking(store.buckets.look)
        self._log = LogHandler(self.say)
        console = remarks()
        self._pace = RunPace(clock)
        self._bars = Bars(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[moved]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        bucket_watch.log.addHandler(self._log)
        self._looking.__enter__()
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()
        self._looking.__exit__(kind, error, traceback)
        bucket_watch.log.removeHandler(self._log)

    def say(self, text: str) -> None:
        """Prints a line above the bar; the line stays."""
        self._bars.console.print(text, style="dim", markup=False, soft_wrap=True)

    @contextmanager
    def erased(self) -> Iterator[None]:
        """Erases the bar while results are printed to stdout, so that they are not printed on its line. The next step
        begins a bar of its own."""
        self._bars.stop()
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        try:
            yield
        finally:
            self._bars.start()

    def show(self, progress: StepProgress) -> None:
        if self._task is None:
            self._task = self._bars.add_task("", total=progress.total, moved="")
        self._bars.update(
            self._task,
            description=f"{progress.kind}, {progress.step}",
            completed=progress.done,
            total=progress.total,
            moved=moved_words(progress, self._pace.seconds_left(progress)),
        )


def moved_words(progress: StepProgress, seconds_left: float | None) -> str:
    moved = (
        f"{size_words(progress.bytes_done)} of {size_words(progress.bytes_total)}"
        if progress.bytes_total
        else ""
    )
    return ", ".join(filter(None, (moved, left_words(seconds_left))))
