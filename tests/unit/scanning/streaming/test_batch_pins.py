"""Pins of micro-batches beside compaction and sweeps, with virtual time; the renewing thread is the test."""

import logging
from typing import Any

import pytest

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import UnpinScan
from siltstone.model.limits import SCAN_PIN_OVERDUE_MS, SECOND_MS
from siltstone.model.objects import object_key
from siltstone.scanning.streaming.batch_pins import BatchPins
from support.engine.batches import batch
from support.maintenance.maintained_store import MaintainedStore


class World:
    """A store with two objects, and a query that has planned a micro-batch from both."""

    def __init__(self, lease_ms: int = 2 * SECOND_MS) -> None:
        self.store = MaintainedStore()
        self.stream_id = self.store.new_stream()
        self.store.append(self.stream_id)
        self.store.append(self.stream_id)
        self.renewing: list[Any] = []
        self.pins = BatchPins(self.store.context, lease_ms, "a query", self.renewing.append)
        self.pins.take()
        self.planned = {
            object_key(held.object_id)
            for held in self.store.context.metadata.refresh().streams[self.stream_id].ranges
        }
        self.store.compact((0, 1), [batch(self.stream_id, 0, 60, 100)])

    def has_planned(self) -> bool:
        sweep(self.store.context, grace_period_ms=0)
        return self.planned <= self.store.keys()


def test_ss7_objects_of_a_micro_batch_stay_until_it_is_over() -> None:
    world = World()
    assert world.has_planned()
    (token,) = world.pins.tokens
    world.pins.end_all()
    assert world.pins.tokens == () and token not in world.store.image.pins
    assert not world.has_planned(), "the sweep deletes them, because nothing reads them"


def test_ss17_a_micro_batch_may_take_much_longer_than_its_lease() -> None:
    world = World()
    assert len(world.renewing) == 1
    for _ in range(5):
        world.store.clock.advance_ms(SCAN_PIN_OVERDUE_MS)
        world.pins.renew()
        assert world.has_planned()
    world.store.clock.advance_ms(SCAN_PIN_OVERDUE_MS + 2 * SECOND_MS)
    assert not world.has_planned(), "a driver that is dead renews nothing"


def test_the_next_micro_batch_has_a_pin_of_its_own_and_one_thread_renews_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    (first,) = world.pins.tokens
    world.pins.end_all()
    world.pins.take()
    (second,) = world.pins.tokens
    assert first != second and len(world.renewing) == 1
    world.store.context.metadata.execute(UnpinScan(second))
    with caplog.at_level(logging.WARNING):
        world.pins.renew()
    assert "was ended before the batch" in caplog.text
    world.pins.close()
    world.renewing[0]()  # the thread ends at once
    assert world.pins.tokens == ()


def test_a_pin_that_cannot_be_ended_now_is_ended_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    client = world.store.context.metadata

    def refuse(command: object) -> None:
        raise CommitUnknown("the answer was lost; execute the commands again")

    with monkeypatch.context() as away, caplog.at_level(logging.WARNING):
        away.setattr(client, "execute", refuse)
        world.pins.end_all()
        world.pins.renew()
    assert caplog.text.count("the answer was lost") == 2
    assert len(world.pins.tokens) == 1 and world.has_planned()
    world.pins.end_all()
    assert not world.has_planned()


def test_without_a_lease_nothing_is_written() -> None:
    world = World(lease_ms=0)
    assert world.pins.tokens == () and not world.renewing and not world.store.image.pins
