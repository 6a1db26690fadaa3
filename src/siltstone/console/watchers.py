"""The pages that follow the store: how many there are, and that there are not too many.

A *watcher* is one page in one browser which loads a part of itself again every few seconds, such as the newest messages
of a topic. No request stands between two loads, so a watcher costs what its loads cost, and a page that is closed
leaves nothing behind. Each page is drawn with a name of its own, which its loads send in the header ``WATCHER``. A page
that has loaded nothing for CONSOLE_WATCHER_MS is no watcher any more, and another one may take its place.
"""

from siltstone.foundation.quantity_words import duration_words
from siltstone.model.console_limits import CONSOLE_WATCHER_MS, CONSOLE_WATCHERS_MAX
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token

WATCHER = "siltstone-watcher"
NAME_CHARACTERS_MAX = 80


class TooManyWatch(Unavailable):
    """As many pages follow the store as may. What the page shows stays, and its next load may find a free place."""


class Watchers:
    """The watchers of one console, the one that has loaded longest ago first."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._seen_ms: dict[str, float] = {}

    def __len__(self) -> int:
        self._forget()
        return len(self._seen_ms)

    def new_name(self) -> str:
        """Returns a name for a page that is drawn now. It is no watcher before its first load."""
        return random_token(self._rng)

    def admit(self, name: str) -> None:
        """Notes a load of the watcher. Raises TooManyWatch."""
        self._forget()
        name = name[:NAME_CHARACTERS_MAX]
        if self._seen_ms.pop(name, None) is None and len(self._seen_ms) >= CONSOLE_WATCHERS_MAX:
            raise TooManyWatch(
                f"{CONSOLE_WATCHERS_MAX} other pages follow this store already, so this one is not loaded again by "
                f"itself: close one of them, and it continues within {duration_words(CONSOLE_WATCHER_MS)}"
            )
        self._seen_ms[name] = self._clock.monotonic_ms()

    def _forget(self) -> None:
        oldest_ms = self._clock.monotonic_ms() - CONSOLE_WATCHER_MS
        for name in [each for each, seen_ms in self._seen_ms.items() if seen_ms <= oldest_ms]:
            del self._seen_ms[name]
