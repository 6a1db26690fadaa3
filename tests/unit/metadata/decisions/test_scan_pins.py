"""Scan pins by themselves: which commands may make one, for how long, and how a pin ends."""

import pytest
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.commands import SHARED_PIN, PinScan, PutKey, UnpinScan
from siltstone.metadata.decisions.scan_pins import HOLDER_CHARACTERS_MAX, is_shared
from siltstone.metadata.entities import ScanPin
from siltstone.metadata.refusals import TooManyScans
from siltstone.model.limits import (
    MINUTE_MS,
    SCAN_PIN_MS_MAX,
    SCAN_PIN_OVERDUE_MS,
    SCAN_PINS_MAX,
    SHARED_SCAN_PINS_MAX,
)
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

LEASE_MS = HOUR_MS


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def test_a_pin_has_the_version_of_the_entry_that_put_it(world) -> None:
    world.do(PutKey("k", b"v"))
    assert world.do(PinScan("q", LEASE_MS, "a query")) == world.now_ms + LEASE_MS
    assert world.image.pins["q"] == ScanPin("q", 2, world.now_ms + LEASE_MS, "a query")
    assert world.image.version == 2


def test_a_renewal_moves_the_end_and_nothing_else(world) -> None:
    put = world.now_ms
    world.do(PinScan("q", LEASE_MS, "a query"))
    world.now_ms += 1_000
    assert world.do(PinScan("q", LEASE_MS, renews=True)) == put + 1_000 + LEASE_MS
    assert world.image.pins["q"] == ScanPin("q", 1, put + 1_000 + LEASE_MS, "a query")
    world.now_ms -= 5_000
    assert world.outcome(PinScan("q", LEASE_MS)) == ("OK", 0), "a lease never becomes shorter"


def test_sr9_a_renewal_of_a_pin_that_was_ended_is_refused(world) -> None:
    world.do(PinScan("q", LEASE_MS))
    assert world.do(UnpinScan("q")) is True
    assert world.outcome(PinScan("q", LEASE_MS, renews=True)) == ("SCAN_OUTDATED", 0)
    world.do(PinScan("q", LEASE_MS))
    assert world.image.pins["q"].version == 3, "a new pin holds only what is destroyed from now on"


def test_ending_a_pin_is_idempotent(world) -> None:
    world.do(PinScan("q", LEASE_MS))
    world.do(PinScan("r", LEASE_MS))
    assert world.do(UnpinScan("q")) is True
    assert world.do(UnpinScan("q")) is False and world.written == 0
    assert set(world.image.pins) == {"r"}


def test_an_overdue_pin_is_one_whose_lease_is_over_for_a_minute(world) -> None:
    world.do(PinScan("q", LEASE_MS))
    world.now_ms += LEASE_MS + SCAN_PIN_OVERDUE_MS - 1
    assert world.do(UnpinScan("q", overdue_only=True)) is False
    world.do(PinScan("q", 2, renews=True))
    world.now_ms += 1
    assert world.do(UnpinScan("q", overdue_only=True)) is False, "it was renewed meanwhile"
    world.now_ms += SCAN_PIN_OVERDUE_MS + 1
    assert world.do(UnpinScan("q", overdue_only=True)) is True


def test_sr9_a_pin_more_than_the_limit_is_refused_and_names_the_oldest(world) -> None:
    for number in range(SCAN_PINS_MAX):
        world.now_ms += 1
        world.do(PinScan(f"q{number}", LEASE_MS, f"query {number}"))
    with pytest.raises(TooManyScans, match=r"1000 scans .* the oldest is q0 of query 0, until 1970"):
        world.do(PinScan("more", LEASE_MS))
    assert world.outcome(PinScan("q7", LEASE_MS + 5, renews=True)) == ("OK", 1), "a renewal is none more"
    assert world.outcome(PinScan(SHARED_PIN, LEASE_MS)) == ("OK", 1), "nor do these pins count as shared ones"
    world.do(UnpinScan("q5"))
    assert world.outcome(PinScan("more", LEASE_MS)) == ("OK", 1)


def test_at_the_limit_pins_that_no_sweep_has_ended_make_room(world) -> None:
    for number in range(SCAN_PINS_MAX):
        world.do(PinScan(f"q{number}", LEASE_MS if number else 1))
    world.now_ms += 1 + SCAN_PIN_OVERDUE_MS
    assert world.outcome(PinScan("more", LEASE_MS)) == ("OK", 2)
    assert "q0" not in world.image.pins and len(world.image.pins) == SCAN_PINS_MAX


def test_sr28_scans_share_the_pin_of_a_minute_and_none_is_refused(world) -> None:
    """5,000 loads in an hour: no more pins than there are minutes, each as old as its first scan, none too short."""
    writes = 0
    for _ in range(5_000):
        world.now_ms += HOUR_MS // 5_000
        until_ms = world.do(PinScan(SHARED_PIN, LEASE_MS, "a load"))
        writes += world.written
        wanted = world.now_ms + LEASE_MS
        assert wanted <= until_ms < wanted + MINUTE_MS and until_ms % MINUTE_MS == 0
        assert any(pin.until_ms == until_ms for pin in world.image.pins.values())
    assert writes == len(world.image.pins) <= 61
    assert all(is_shared(token) for token in world.image.pins)


def test_a_shared_pin_is_as_old_as_its_first_scan(world) -> None:
    world.do(PinScan(SHARED_PIN, LEASE_MS, "the first"))
    world.do(PutKey("k", b"v"))
    world.do(PinScan(SHARED_PIN, LEASE_MS, "the second"))
    (pin,) = world.image.pins.values()
    assert (pin.version, pin.holder) == (1, "the first")


def crowded(world: MetadataWorld, first_minute: int) -> None:
    """As many shared pins as there may be, one for each minute from the first on."""
    pins = (
        ScanPin(f"minute-{at}", 1, at * MINUTE_MS)
        for at in range(first_minute, first_minute + SHARED_SCAN_PINS_MAX)
    )
    world.image = replace(world.image, version=1, pins=ShardedMap((pin.token, pin) for pin in pins))


def test_sr28_shared_pins_that_no_sweep_ends_do_not_add_up(world) -> None:
    crowded(world, first_minute=1)
    world.now_ms = (SHARED_SCAN_PINS_MAX + 5) * MINUTE_MS
    world.do(PinScan(SHARED_PIN, LEASE_MS))
    assert len(world.image.pins) <= 6 + 1
    assert min(pin.until_ms for pin in world.image.pins.values()) + SCAN_PIN_OVERDUE_MS > world.now_ms


def test_sr28_shared_pins_of_clocks_ahead_are_shared_by_those_behind(world) -> None:
    now_minute = world.now_ms // MINUTE_MS
    crowded(world, first_minute=now_minute + 2 * 24 * 60)
    until_ms = world.do(PinScan(SHARED_PIN, SCAN_PIN_MS_MAX))
    assert world.written == 0
    assert until_ms >= world.now_ms + SCAN_PIN_MS_MAX
    assert any(pin.until_ms == until_ms for pin in world.image.pins.values())


def test_a_long_holder_is_cut(world) -> None:
    world.do(PinScan("q", LEASE_MS, "x" * 5_000))
    assert world.image.pins["q"].holder == "x" * HOLDER_CHARACTERS_MAX


@pytest.mark.parametrize(
    "command",
    [
        PinScan("q", 0),
        PinScan("q", SCAN_PIN_MS_MAX + 1),
        PinScan(SHARED_PIN, SCAN_PIN_MS_MAX + 1),
        PinScan(SHARED_PIN, LEASE_MS, renews=True),
        PinScan("minute-7", LEASE_MS),
        PinScan("two words", LEASE_MS),
        PinScan("line\n", LEASE_MS),
        PinScan("x" * 65, LEASE_MS),
    ],
)
def test_what_is_malformed_is_refused(world, command) -> None:
    assert world.outcome(command) == ("INVALID_REQUEST", 0)


def test_the_longest_lease_is_a_day(world) -> None:
    assert world.do(PinScan("q", SCAN_PIN_MS_MAX)) == world.now_ms + 24 * HOUR_MS
