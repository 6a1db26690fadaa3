"""What the demo says while it works: numbered steps, what was done in each, a bar while it takes long.

On a terminal a line moves; elsewhere (a CI log) each step is a plain line when it begins and one when it is done. All
of it fits into 80 columns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

COLUMNS_MAX = 80

OnProgress = Callable[[int, int], None]


class Story:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._step = 0

    def title(self, text: str, explanation: str) -> None:
        self._console.print(f"[bold]{text}[/]")
        self._console.print(Padding(explanation, (0, 0, 1, 0)), style="dim")

    def step(self, text: str) -> None:
        self._step += 1
        self._console.print(f"[bold cyan]{self._step}[/]  [bold]{text}[/]")

    def done(self, text: str) -> None:
        self._indented(f"[green]✓[/] {text}")

    def note(self, text: str) -> None:
        self._indented(f"[dim]· {text}[/]")

    def wrong(self, text: str) -> None:
        self._indented(f"[bold red]✗ {text}[/]")

    def show(self, renderable: RenderableType) -> None:
        self._console.print(Padding(renderable, (1, 0, 1, 3)))

    def command(self, text: str) -> None:
        """In one line however long, to be copied."""
        self._console.print(f"   [bold]$[/] {text}", soft_wrap=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[OnProgress]:
        """What is inside reports (done, in all); nothing is left of the bar afterwards."""
        with Progress(
            TextColumn("  "), SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20),
            TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        ) as bars:  # fmt: skip
            task = bars.add_task(text, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)

    def _indented(self, text: str) -> None:
        self._console.print(Padding(text, (0, 0, 0, 3)))
