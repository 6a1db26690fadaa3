"""A runner that is started when the first unit needs it, and kept: many runs need none."""

from collections.abc import Callable
from threading import RLock

from siltstone.maintenance.runner import Runner
from siltstone.model.errors import SiltstoneError, Unavailable


class RunnerNotStarted(Unavailable):
    """Nobody is there to run tasks, whatever the cause: no unit's fault."""


class LateRunner:
    """``start`` is a StartRunner. One that ``is_lost`` is started anew: its processes died."""

    def __init__(self, open_runner: Callable[[], Runner]) -> None:
        self._open = open_runner
        self._starting = RLock()
        self._runner: Runner | None = None

    @property
    def is_started(self) -> bool:
        return self._runner is not None

    def start(self) -> Runner:
        """Raises RunnerNotStarted."""
        with self._starting:
            if self._runner is not None and getattr(self._runner, "is_lost", False):
                self.close()
            if self._runner is None:
                self._runner = self._opened()
            return self._runner

    def _opened(self) -> Runner:
        try:
            return self._open()
        except SiltstoneError as failure:
            raise RunnerNotStarted(str(failure)) from failure

    def close(self) -> None:
        with self._starting:
            runner, self._runner = self._runner, None
            if runner is not None:
                runner.close()
