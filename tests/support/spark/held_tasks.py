"""Tasks that are held where a test wants to kill them: in the middle of a write, or after their work is done and before
they answer. The attempt that follows does all of it again, over what the killed one wrote."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from siltstone.offline.tasks.runner import LabelOf, Runner, Task, TaskEnd
from siltstone.runtime.tasks import OnProgress

HELD_SECONDS_MAX = 600.0


@dataclass(frozen=True)
class Held:
    """``task``, held until the test opens the gate. While it is held a file in ``folder`` carries its process id."""

    task: Task
    folder: str

    def __call__(self, given: bytes) -> bytes:
        result = self.task(given)
        hold(Path(self.folder))
        return result


@dataclass(frozen=True)
class HeldInWrite:
    """``task``, held when half of its first write to a folder is done."""

    task: Task
    folder: str

    def __call__(self, given: bytes) -> bytes:
        write, first = os.pwritev, Lock()

        def write_half(descriptor: int, buffers: Sequence[bytes], position: int) -> int:
            if not first.acquire(blocking=False):
                return write(descriptor, buffers, position)
            content = b"".join(buffers)
            written = os.pwrite(descriptor, content[: len(content) // 2], position)
            hold(Path(self.folder))
            return written

        os.pwritev = write_half
        try:
            return self.task(given)
        finally:
            os.pwritev = write


def hold(folder: Path) -> None:
    (folder / f"held-{os.getpid()}").touch()
    waited = 0.0
    while not (folder / "gate").exists():
        assert waited < HELD_SECONDS_MAX, "nobody opened the gate"
        time.sleep(0.02)
        waited += 0.02


class Gate:
    """The test's side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def held_pids(self) -> list[int]:
        return [int(path.name.removeprefix("held-")) for path in self.folder.glob("held-*")]

    def open(self) -> None:
        (self.folder / "gate").touch()


class HoldingRunner:
    """A runner all of whose tasks are held, for code that takes a Runner and not a task."""

    def __init__(self, runner: Runner, folder: Path, held: type[Held] | type[HeldInWrite] = Held) -> None:
        self._runner = runner
        self._folder = str(folder)
        self._held = held

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        return self._runner.run(self._held(task, self._folder), inputs, on_progress, label)

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        return self._runner.run_each(self._held(task, self._folder), inputs, on_waiting, label_of)

    @property
    def is_lost(self) -> bool:
        return self._runner.is_lost

    def close(self) -> None:
        self._runner.close()
