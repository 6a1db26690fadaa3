"""Prints the demo's progress: numbered steps, the results of each, and a progress bar while a step takes long.

The bar is shown at a terminal only; elsewhere, as in the log of a CI job, the output is plain lines. All output fits
into 80 columns, but for commands, which are not wrapped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

COLUMNS_MAX = 80

OnProgress = Callable[[int, int], None]


class Story:
    def __init__(self, console: Console, on_line: Callable[[], None] = lambda: None) -> None:
        """``on_line``: called before each step and each result; what it raises ends the demo."""
        self._console = console
        self._on_line = on_line
        self._step = 0

    def title(self, text: str, explanation: str) -> None:
        self._console.print(f"[bold]{text}[/]")
        self._console.print(Padding(explanation, (0, 0, 1, 0)), style="dim")

    def step(self, text: str) -> None:
        self._on_line()
        self._step += 1
        self._console.print(f"[bold cyan]{self._step}[/]  [bold]{text}[/]")

    def done(self, text: str) -> None:
        self._on_line()
        self._indented(f"[green]✓[/] {text}")

    def note(self, text: str) -> None:
        self._indented(f"[dim]· {text}[/]")

    def wrong(self, text: str) -> None:
        self._indented(f"[bold red]✗ {text}[/]")

    def show(self, renderable: RenderableType) -> None:
        self._console.print(Padding(renderable, (1, 0, 1, 3)))

    def command(self, text: str) -> None:
        """Prints a shell command on one line, however long, so that it can be copied."""
        self._console.print(f"   [bold]$[/] {text}", soft_wrap=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[OnProgress]:
        """Yields a function that reports (done, total) to a bar; the bar disappears afterwards."""
        with Progress(
            TextColumn("  "), SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20),
            TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        ) as bars:  # fmt: skip
            task = bars.add_task(text, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)

    def _indented(self, text: str) -> None:
        self._console.print(Padding(text, (0, 0, 0, 3)))
