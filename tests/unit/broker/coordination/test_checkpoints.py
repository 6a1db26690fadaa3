"""A log is written again when it is long, and trimmed before what was written."""

import asyncio

import pytest

from siltstone.broker.coordination.checkpoints import LogSize, write_again
from siltstone.model.errors import Unavailable


class Log:
    def __init__(self, *, trims: bool = True) -> None:
        self.next_offset = 10
        self.start_offset = 0
        self._trims = trims

    async def trim_before(self, offset: int) -> None:
        if not self._trims:
            raise Unavailable("no bucket")
        self.start_offset = offset


@pytest.mark.parametrize(
    ("records", "live", "is_long"), [(20, 0, False), (21, 0, True), (21, 10, True), (21, 11, False)]
)
def test_a_log_is_long_by_both_measures(records: int, live: int, is_long: bool) -> None:
    length = LogSize(records_min=20, live_factor=2, read=5, added=records - 5)
    assert length.records == records and length.is_long(live) is is_long


@pytest.mark.parametrize("failing", [None, 1, 2])
def test_the_log_is_trimmed_when_every_step_is_durable(failing: int | None) -> None:
    log, length = Log(), LogSize(20, 2, read=7, added=3)
    steps: list[int] = []

    async def append(step: int) -> bool:
        steps.append(step)
        length.added += 1
        log.next_offset += 1
        return step != failing

    is_done = asyncio.run(write_again(log, length, [1, 2, 3], append))
    assert is_done is (failing is None)
    assert log.start_offset == (10 if is_done else 0)
    assert steps == [1, 2, 3][:failing]
    assert length.records == len(steps), "what stands before the checkpoint counts no more"


def test_a_log_that_cannot_be_trimmed_waits_for_as_many_new_records() -> None:
    length = LogSize(20, 2, read=30)

    async def append(_: int) -> bool:
        length.added += 4
        return True

    with pytest.raises(Unavailable):
        asyncio.run(write_again(Log(trims=False), length, [1], append))
    assert length.records == 4 and not length.is_long(4)
