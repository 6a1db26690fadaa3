"""``siltstone`` with a wall clock that a test shifts while it runs:

    python -m support.faults.shifted_serve FILE serve …

FILE holds the milliseconds by which the clock is ahead. The whole program takes its time from ``SystemClock``, as the
linter demands. So what is shifted here is all that the program takes for the time of day. The monotonic clock is
left alone, as it is when the clock of a machine is set.
"""

import sys
import time
from pathlib import Path

from siltstone.runtime.clock import SystemClock


def shift(file: Path) -> None:
    def now_ms(_: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + int(file.read_text())

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


if __name__ == "__main__":
    shift(Path(sys.argv.pop(1)))
    from siltstone.cli.program import main

    main()
