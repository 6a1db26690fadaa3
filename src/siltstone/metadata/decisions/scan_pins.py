"""Decisions about scan pins: a pin keeps the objects of a scan's plan in their buckets until a record ends the pin.

A scan that renews has a token of its own. Scans that do not renew share one pin for each minute in which a lease ends.
However many of them begin in a minute, one record is written: the pin of the first keeps the objects of the later ones,
too.

The lease is written by the scan's clock and judged by those of sweeps. Clocks that differ may end a lease early, but no
object is deleted while its pin exists: the pin ends by a record, which every process reads before it deletes (SR27).
"""

import re
from typing import NoReturn

from siltstone.foundation.quantity_words import time_words
from siltstone.metadata.commands import SHARED_PIN, PinScan, UnpinScan
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.entities import ScanPin
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import is_overdue
from siltstone.metadata.records import Record, ScanPinned, ScanUnpinned
from siltstone.metadata.refusals import CommandMalformed, PinOutdated, TooManyScans
from siltstone.model.limits import MINUTE_MS, SCAN_PIN_MS_MAX, SCAN_PINS_MAX, SHARED_SCAN_PINS_MAX

HOLDER_CHARACTERS_MAX = 200
"""Enough for a host, a process and the topics of a query; longer texts are cut."""

_SHARED_PREFIX = "minute-"
_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


def decide_pin_scan(view: ImageView, command: PinScan, now_ms: int) -> Decision[int]:
    if not 1 <= command.lease_ms <= SCAN_PIN_MS_MAX:
        raise CommandMalformed(
            f"a scan cannot be pinned for {command.lease_ms} ms; give 1 to {SCAN_PIN_MS_MAX} (24 hours)"
        )
    until_ms = now_ms + command.lease_ms
    if command.token == SHARED_PIN and not command.renews:
        return _share(view, command, until_ms, now_ms)
    if not _TOKEN.fullmatch(command.token) or is_shared(command.token):
        raise CommandMalformed(
            f"{command.token!r} cannot be the token of a scan; give 1 to 64 letters, digits, '.', '_' or '-' that do "
            f"not begin with {_SHARED_PREFIX}"
        )
    standing = view.pins.get(command.token)
    if standing is not None:
        return _renew(standing, until_ms)
    if command.renews:
        raise PinOutdated(
            f"the pin {command.token} was ended, so objects that the scan has planned to read may have been deleted; "
            "plan the scan again"
        )
    return Decision((*_room_for_one(view, now_ms), _pinned(command, command.token, until_ms)), until_ms)


def decide_unpin_scan(view: ImageView, command: UnpinScan, now_ms: int) -> Decision[bool]:
    standing = view.pins.get(command.token)
    if standing is None or (command.overdue_only and not is_overdue(standing, now_ms)):
        return Decision((), False)
    return Decision((ScanUnpinned(command.token),), True)


def is_shared(token: str) -> bool:
    """Returns whether the pin is one of those that scans share."""
    return token.startswith(_SHARED_PREFIX)


def _pinned(command: PinScan, token: str, until_ms: int) -> ScanPinned:
    return ScanPinned(token, until_ms, command.holder[:HOLDER_CHARACTERS_MAX])


def _renew(standing: ScanPin, until_ms: int) -> Decision[int]:
    if until_ms <= standing.until_ms:
        return Decision((), standing.until_ms)
    return Decision((ScanPinned(standing.token, until_ms),), until_ms)


def _room_for_one(view: ImageView, now_ms: int) -> tuple[Record, ...]:
    """Ends overdue pins when there are as many as there may be, because no sweep may run. Raises TooManyScans."""
    if len(view.pins) < SCAN_PINS_MAX:
        return ()
    own = [pin for pin in view.pins.values() if not is_shared(pin.token)]
    if len(own) < SCAN_PINS_MAX:
        return ()
    ended = sorted(pin.token for pin in own if is_overdue(pin, now_ms))
    if not ended:
        _refuse(min(own, key=lambda pin: (pin.version, pin.token)), len(own))
    return tuple(ScanUnpinned(token) for token in ended)


def _refuse(oldest: ScanPin, count: int) -> NoReturn:
    raise TooManyScans(
        f"{count} scans are pinned, as many as may be at once; the oldest is {oldest.token}"
        f"{f' of {oldest.holder}' if oldest.holder else ''}, until {time_words(oldest.until_ms)} UTC. Wait for it, or "
        f"end it with siltstone maintain unpin {oldest.token}"
    )


def _share(view: ImageView, command: PinScan, until_ms: int, now_ms: int) -> Decision[int]:
    """Uses the pin of the minute in which the lease ends. When there are as many shared pins as there may be, overdue
    ones are ended. If there are still too many, not all of them can end within SCAN_PIN_MS_MAX from now: clocks that
    are ahead have put some, and one that ends later is used."""
    minute = -(-until_ms // MINUTE_MS)
    token, until_ms = f"{_SHARED_PREFIX}{minute}", minute * MINUTE_MS
    if token in view.pins:
        return Decision((), until_ms)
    ended: list[Record] = []
    if len(view.pins) >= SHARED_SCAN_PINS_MAX:
        shared = [pin for pin in view.pins.values() if is_shared(pin.token)]
        if len(shared) >= SHARED_SCAN_PINS_MAX:
            ended += (ScanUnpinned(pin.token) for pin in shared if is_overdue(pin, now_ms))
            if not ended:
                latest = max(shared, key=lambda pin: pin.until_ms)
                assert latest.until_ms >= until_ms, "there is one pin for each minute"
                return Decision((), latest.until_ms)
    return Decision((*ended, _pinned(command, token, until_ms)), until_ms)
