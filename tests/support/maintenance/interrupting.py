"""A runner of maintenance tasks during which something happens."""

from collections.abc import Callable, Sequence

from siltstone.offline.tasks.runner import InProcessRunner, Task


class Interrupting:
    """A runner that lets something happen when the tasks are done."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: object = None, label: str = ""
    ) -> list[bytes]:
        results = InProcessRunner().run(task, inputs)
        self._happens()
        return results

    def close(self) -> None:
        return None
