"""Scan pins keep destroyed objects in their buckets; this module finds which objects, and how many bytes each pin
keeps. Pure.

A pin holds every object that was destroyed at its version or later (``metadata.lookup``), so what an older pin holds
includes what a newer one holds, and the oldest alone decides what is deleted.
"""

from bisect import bisect_left
from collections.abc import Container, Iterator
from itertools import accumulate

import msgspec

from siltstone.carrying.pipeline.kind import Unplanned
from siltstone.foundation.quantity_words import counted, size_words, time_words
from siltstone.metadata.decisions.scan_pins import is_shared
from siltstone.metadata.entities import ObjectMetadata, ScanPin
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import grace_is_over, is_pinned, pinned_from

PINS_SHOWN_MAX = 20
"""The oldest pins are explained one by one, because they hold the most; the others are counted."""


class PinnedObject(msgspec.Struct, frozen=True):
    """What one pin holds."""

    pin: ScanPin
    objects: int
    size_bytes: int


def pinned_objects(
    image: MetadataImage, now_ms: int, grace_period_ms: int, pins_ended: Container[str] = ()
) -> list[ObjectMetadata]:
    """Returns the objects past their grace period that only pins keep from being deleted. ``pins_ended`` are the tokens
    of pins that do not count."""
    held_from = pinned_from(image, pins_ended)
    if held_from is None:
        return []
    return [
        metadata
        for object_id, destroyed_ms in image.destroyed.items()
        if grace_is_over(destroyed_ms, now_ms, grace_period_ms)
        and is_pinned(metadata := image.objects[object_id], held_from)
    ]


def held_by_pin(
    image: MetadataImage, now_ms: int, grace_period_ms: int, pins_ended: Container[str] = ()
) -> list[PinnedObject]:
    """Returns what each pin holds, the oldest pin first."""
    objects = pinned_objects(image, now_ms, grace_period_ms, pins_ended)
    newest_first = sorted(objects, key=lambda metadata: -metadata.destroyed_version)
    versions = [-metadata.destroyed_version for metadata in newest_first]
    sizes = [0, *accumulate(metadata.size_bytes for metadata in newest_first)]
    pins = sorted(
        (pin for pin in image.pins.values() if pin.token not in pins_ended),
        key=lambda pin: (pin.version, pin.token),
    )
    counts = (bisect_left(versions, 1 - pin.version) for pin in pins)
    return [PinnedObject(pin, count, sizes[count]) for pin, count in zip(pins, counts, strict=True)]


def explained(held: list[PinnedObject]) -> Iterator[Unplanned]:
    """Yields a line for each of the oldest pins, and one for all others."""
    for each in held[:PINS_SHOWN_MAX]:
        yield Unplanned(f"pin {each.pin.token}", _words(each))
    if len(held) > PINS_SHOWN_MAX:
        more = counted(len(held) - PINS_SHOWN_MAX, "newer pin")
        yield Unplanned("pins", f"and {more}, none of which holds anything that these do not hold")


def _words(held: PinnedObject) -> str:
    pin = held.pin
    holder = pin.holder or "a scan"
    who = f"scans that share this pin, first {holder}," if is_shared(pin.token) else holder
    verb = "hold" if is_shared(pin.token) else "holds"
    what = f"{counted(held.objects, 'destroyed object')}, {size_words(held.size_bytes)}"
    return (
        f"{who} {verb} {what if held.objects else 'nothing yet'}, until {time_words(pin.until_ms)} UTC or a renewal; "
        f"siltstone maintain unpin {pin.token} ends it"
    )
