"""Tasks that are held after their work is done and before they answer, so that a test can kill them there: the
attempt that follows does all of it again, over what the killed one wrote."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from siltstone.maintenance.runner import Runner, Task

HELD_SECONDS_MAX = 200.0


@dataclass(frozen=True)
class Held:
    """``task``, held until the test opens the gate. While it is held a file in ``folder`` carries its process id."""

    task: Task
    folder: str

    def __call__(self, unit: bytes) -> bytes:
        result = self.task(unit)
        (Path(self.folder) / f"held-{os.getpid()}").touch()
        waited = 0.0
        while not (Path(self.folder) / "gate").exists():
            assert waited < HELD_SECONDS_MAX, "nobody opened the gate"
            time.sleep(0.02)
            waited += 0.02
        return result


class Gate:
    """The test's side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def held_pids(self) -> list[int]:
        return [int(path.name.removeprefix("held-")) for path in self.folder.glob("held-*")]

    def open(self) -> None:
        (self.folder / "gate").touch()


class HoldingRunner:
    """A runner all of whose tasks are held: for whoever takes a Runner and not a task."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        self._runner = runner
        self._folder = str(folder)

    def run(
        self, task: Task, units: Sequence[bytes], on_progress: Callable[[int, int], None] | None = None
    ) -> list[bytes]:
        return self._runner.run(Held(task, self._folder), units, on_progress)

    def close(self) -> None:
        self._runner.close()
