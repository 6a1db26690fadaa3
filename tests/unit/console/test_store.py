"""How a console without a node follows the metadata."""

import asyncio
import logging

import pytest

from siltstone.console.store import OpenedStore
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.runtime.clock import ManualClock
from support.scenarios import in_loop


class MetadataOfFailures:
    """Raises each failure once, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.image = MetadataImage()
        self.failures = list(failures)
        self.answered = 0

    def refresh(self) -> MetadataImage:
        if self.failures:
            raise self.failures.pop(0)
        self.answered += 1
        return self.image

    def now_ms(self) -> int:
        return 0


class StoreOfFailures:
    def __init__(self, *failures: Exception) -> None:
        self.metadata = MetadataOfFailures(*failures)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Unavailable("the database is away"), "the database is away"),
        (CorruptData("entry 7 is damaged"), "entry 7 is damaged"),
        (OSError(5, "Input/output error"), "the metadata cannot be read: [Errno 5] Input/output error"),
    ],
)
@in_loop
async def test_no_failure_ends_the_following_and_pages_say_why(
    failure: Exception, said: str, caplog: pytest.LogCaptureFixture
):
    class SeenClock(ManualClock):
        async def sleep_ms(self, _: float) -> None:
            seen.append(opened.trouble)
            if len(seen) == 2:
                await asyncio.Future()

    seen: list[str] = []
    store = StoreOfFailures(failure)
    opened = OpenedStore(store, "--store x", SeenClock())  # type: ignore[arg-type]
    following = asyncio.create_task(opened.follow())
    with caplog.at_level(logging.ERROR):
        while len(seen) < 2 and not following.done():
            await asyncio.wait({following}, timeout=0.01)
    following.cancel()
    await asyncio.wait({following})
    await opened.close()
    assert seen == [said, ""] and store.metadata.answered == 1
    assert ("cannot be followed" in caplog.text) == isinstance(failure, OSError)
