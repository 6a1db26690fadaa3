"""What each pin keeps, against a count by hand, and the words for it."""

from siltstone.maintenance.sweep.pinned import (
    PINS_SHOWN_MAX,
    PinnedObject,
    explained,
    held_by_pin,
    pinned_objects,
)
from siltstone.metadata.commands import SHARED_PIN, CloseStream, DeleteStream, PinScan, UnpinScan
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

GRACE_MS = 60_000


def world_of(*steps: str) -> MetadataWorld:
    """``x``: an object of 200 bytes is destroyed; any other letter: a scan of that token pins."""
    world = MetadataWorld()
    world.register(0)
    for step in steps:
        if step == "x":
            stream_id = world.open_stream()
            world.do(world.upload(alone=((stream_id, 0, 10),)))
            world.do(CloseStream(0, 1, stream_id, 0))
            world.do(DeleteStream(0, 1, stream_id, 0))
        else:
            world.do(PinScan(step, HOUR_MS, f"query {step}"))
    world.now_ms += GRACE_MS
    return world


def held(world: MetadataWorld, *pins_ended: str) -> list[tuple[str, int, int]]:
    found = held_by_pin(world.image, world.now_ms, GRACE_MS, pins_ended)
    return [(each.pin.token, each.objects, each.size_bytes) for each in found]


def test_each_pin_holds_what_was_destroyed_after_it() -> None:
    world = world_of("x", "a", "x", "x", "b", "x", "c")
    assert held(world) == [("a", 3, 600), ("b", 1, 200), ("c", 0, 0)]
    assert held(world, "a") == [("b", 1, 200), ("c", 0, 0)]
    assert len(pinned_objects(world.image, world.now_ms, GRACE_MS)) == 3
    assert pinned_objects(world.image, world.now_ms, GRACE_MS, {"a", "b", "c"}) == []


def test_what_is_in_its_grace_period_is_held_by_that() -> None:
    world = world_of("a", "x")
    world.now_ms -= 1
    assert held(world) == [("a", 0, 0)]


def test_without_pins_nothing_is_held() -> None:
    world = world_of("x", "a")
    world.do(UnpinScan("a"))
    assert held(world) == [] and pinned_objects(world.image, world.now_ms, GRACE_MS) == []


def told(world: MetadataWorld) -> list[str]:
    lines = explained(held_by_pin(world.image, world.now_ms, GRACE_MS))
    return [f"{line.name}: {line.reason}" for line in lines]


def test_a_pin_is_told_with_what_it_holds_for_whom_and_how_it_is_ended() -> None:
    world = world_of("a", "x", "b")
    world.do(PinScan(SHARED_PIN, HOUR_MS, "host 7"))
    shared = max(world.image.pins)
    assert told(world) == [
        "pin a: query a holds 1 destroyed object, 200 B, until 1970-01-12 14:46:40 UTC or a renewal; "
        "siltstone maintain unpin a ends it",
        "pin b: query b holds nothing yet, until 1970-01-12 14:46:40 UTC or a renewal; "
        "siltstone maintain unpin b ends it",
        f"pin {shared}: scans that share this pin, first host 7, hold nothing yet, until 1970-01-12 14:48:00 UTC or "
        f"a renewal; siltstone maintain unpin {shared} ends it",
    ]


def test_only_the_oldest_are_told_one_by_one() -> None:
    world = world_of("x", "zzz", *(f"q{number}" for number in range(PINS_SHOWN_MAX + 3)))
    lines = told(world)
    assert len(lines) == PINS_SHOWN_MAX + 1 and lines[0].startswith("pin zzz:")
    assert lines[-1].startswith("pins: and 4 newer pins, none of which")
    assert isinstance(held_by_pin(world.image, world.now_ms, GRACE_MS)[0], PinnedObject)
