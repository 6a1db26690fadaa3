"""The pin of a scan that is read for longer than its lease: renewed, ended, or left for its lease."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from siltstone.metadata.commands import PinScan, UnpinScan
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.renewal import PinRenewal
from support.maintenance.maintained_store import MaintainedStore

TOKEN = "a" * 32


class World:
    def __init__(self) -> None:
        self.store = MaintainedStore()
        self.store.metadata.execute(PinScan(TOKEN, HOUR_MS, "a scan"))
        self.trouble: Exception | None = None
        self.renewal = PinRenewal(self._opened, TOKEN, HOUR_MS, self.store.clock)

    @contextmanager
    def _opened(self) -> Iterator[MaintenanceContext]:
        if self.trouble is not None:
            raise self.trouble
        yield self.store.another_context()

    @property
    def has_pin(self) -> bool:
        return TOKEN in self.store.image.pins

    def lease_until_ms(self) -> int:
        return self.store.image.pins[TOKEN].until_ms

    def run(self, *steps: Any) -> list[float]:
        """The thread's work, done here. Each step is done instead of a wait; after the last, the scan is closed.
        Returns how long it would have waited, in seconds."""
        waits: list[float] = []
        left = list(steps)

        class Closing:
            def wait(self, seconds: float) -> bool:
                waits.append(seconds)
                if not left:
                    return True
                left.pop(0)()
                return False

        self.renewal._closing = Closing()  # type: ignore[assignment]
        self.renewal._run()
        return waits


@pytest.fixture
def world() -> World:
    return World()


def test_a_pin_is_renewed_at_a_third_of_its_lease_and_ended_with_the_scan(world: World) -> None:
    seen: list[int] = []

    def later() -> None:
        seen.append(world.lease_until_ms() - world.store.clock.now_ms())
        world.store.clock.advance_ms(20 * MINUTE_MS)

    assert world.run(later, later, later) == [1_200.0] * 4
    assert seen == [HOUR_MS] * 3, "each renewal is for a whole lease"
    assert not world.has_pin


def test_a_renewal_that_fails_is_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        world.trouble = LogUnavailable("no answer")

    def recover() -> None:
        world.trouble = None
        world.store.clock.advance_ms(MINUTE_MS)

    assert len(world.run(fail, recover)) == 3
    assert "could not be renewed, which is tried again: no answer" in caplog.text
    assert not world.has_pin


def test_a_pin_that_was_ended_meanwhile_is_not_put_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def end() -> None:
        world.store.metadata.execute(UnpinScan(TOKEN))

    def never() -> None:
        raise AssertionError("there is nothing to renew")

    assert len(world.run(end, never)) == 1
    assert not world.has_pin and caplog.messages


def test_a_pin_that_cannot_be_ended_is_left_to_a_sweep(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.trouble = LogUnavailable("no answer")
    world.run()
    assert "could not be ended; a sweep ends it later: no answer" in caplog.text
    assert world.has_pin


class Holder:
    """What is read: the scan."""


def test_closing_returns_when_the_pin_is_ended_and_may_be_repeated(world: World) -> None:
    holder = Holder()
    world.renewal.keep_for(holder)
    assert world.has_pin
    world.renewal.close()
    assert not world.has_pin
    world.renewal.close()


@pytest.mark.parametrize("leaves_pin", [False, True])
def test_a_scan_that_nobody_holds_ends_its_pin_or_leaves_it_for_its_lease(
    world: World, leaves_pin: bool
) -> None:
    holder = Holder()
    world.renewal.keep_for(holder, leaves_pin=leaves_pin)
    del holder
    gc.collect()
    world.renewal._thread.join(60)
    assert not world.renewal._thread.is_alive()
    assert world.has_pin == leaves_pin
