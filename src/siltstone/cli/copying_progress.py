"""Shows at a terminal how many objects a backup or a restore has copied."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import TextColumn

from siltstone.cli.output import progress, remarks


@contextmanager
def copying_shown() -> Iterator[Callable[[int, int], None]]:
    """Yields a function that is called with (objects that are done, objects in all). Nothing is shown before its first
    call, and nothing in a pipe."""
    with progress(remarks(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}")) as shown:
        task = None

        def show(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = shown.add_task("copying objects", total=total)
            shown.update(task, completed=done, total=total)

        yield show
