"""Holds the events of the audit until they are written: bounded in bytes and in kinds, with no clock of its own.

Clients can make any number of logins, refusals and commits of offsets. Such events are gathered: equal ones become one
record with a count, GATHERING_MS after the first. Made-up names make no new kinds: of a login that fails, the name is
there only if there is such a user, and hosts of one network are one. Changes are kept one by one, and leave first. What
has no room is dropped and counted, and the count is a record, too. A note without room is not lost: it stays in the
metadata, and is taken when there is room.
"""

from collections import deque
from ipaddress import ip_address, ip_network

import msgspec

from siltstone.model.audit import GATHERED, AuditEvent, AuditKind, written_record
from siltstone.model.limits import MIB, SECOND_MS

GATHERING_MS = 10 * SECOND_MS
"""Short enough to look at while something happens; with KINDS_MAX it is 100 records a second."""

KINDS_MAX = 1_000
"""Kinds of gathered events at a time. Further ones are counted together, as ``other``."""

WAITING_BYTES_MAX = 2 * MIB
"""The most bytes of records that wait to be written. The gathered kinds have 2 KB each at most, so all is 4 MiB."""

RECORDS_PER_SECOND_MAX = 100
"""The most records that a node writes in a second: a flood costs no more than a slow producer."""

_NETWORK_BITS = {4: 24, 6: 64}
OTHER = "other"


class AuditStatistics(msgspec.Struct, frozen=True):
    """``written`` counts records, ``dropped`` events that had no room."""

    written: int
    dropped: int
    waiting_bytes: int


class _Kind(msgspec.Struct):
    event: AuditEvent
    first_ms: int
    count: int = 1


class WaitingRecord(msgspec.Struct, frozen=True):
    """A record that is to be written. ``note``: the key of the note that it came from, which goes when it is
    durable."""

    value: bytes
    note: str = ""


class AuditGathering:
    def __init__(self, node_id: int, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._node_id = node_id
        self._waiting_bytes_max = waiting_bytes_max
        self._kinds: dict[AuditEvent, _Kind] = {}
        self._waiting: deque[WaitingRecord] = deque()
        self._waiting_bytes = 0
        self._written = self._dropped = self._dropped_told = 0

    def add(self, event: AuditEvent, now_ms: int) -> None:
        """Never raises, and never waits."""
        if event.event in GATHERED:
            self._gather(event, now_ms)
        elif not self._wait(WaitingRecord(written_record(event, now_ms, self._node_id))):
            self._dropped += 1

    def add_note(self, event: AuditEvent, time_ms: int, note: str) -> bool:
        """Returns whether there is room for the event of a note."""
        return self._wait(WaitingRecord(written_record(event, time_ms, self._node_id), note))

    def _gather(self, event: AuditEvent, now_ms: int) -> None:
        key = _key_of(event)
        if (kind := self._kinds.get(key)) is None and len(self._kinds) >= KINDS_MAX:
            event = key = AuditEvent(event=event.event, outcome=event.outcome, resource=OTHER)
            kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(event, now_ms)
        else:
            kind.count += 1

    def _wait(self, record: WaitingRecord) -> bool:
        """Returns whether there is room."""
        if self._waiting_bytes + len(record.value) > self._waiting_bytes_max:
            return False
        self._waiting.append(record)
        self._waiting_bytes += len(record.value)
        return True

    def take(self, now_ms: int, *, is_end: bool = False) -> list[WaitingRecord]:
        """Returns the records to be written now, RECORDS_PER_SECOND_MAX at most. ``is_end``: nothing waits for more
        events of its kind."""
        if self._dropped > self._dropped_told:
            count = self._dropped - self._dropped_told
            told = AuditEvent(event=AuditKind.DROPPED, outcome="dropped")
            self._waiting.appendleft(WaitingRecord(written_record(told, now_ms, self._node_id, count)))
            self._waiting_bytes += len(self._waiting[0].value)
            self._dropped_told = self._dropped
        taken: list[WaitingRecord] = []
        while self._waiting and len(taken) < RECORDS_PER_SECOND_MAX:
            taken.append(self._waiting.popleft())
            self._waiting_bytes -= len(taken[-1].value)
        # A dict keeps the order of the first events, so the oldest kinds come first.
        for key, kind in list(self._kinds.items())[: RECORDS_PER_SECOND_MAX - len(taken)]:
            if not is_end and now_ms - kind.first_ms < GATHERING_MS:
                break
            del self._kinds[key]
            taken.append(WaitingRecord(written_record(kind.event, kind.first_ms, self._node_id, kind.count)))
        return taken

    def wrote(self, records: list[WaitingRecord]) -> None:
        self._written += len(records)

    def put_back(self, records: list[WaitingRecord]) -> list[str]:
        """These could not be written: they are the next. Returns the notes for which there is no room any more."""
        self._waiting.extendleft(reversed(records))
        self._waiting_bytes += sum(len(each.value) for each in records)
        left: list[str] = []
        while self._waiting_bytes > self._waiting_bytes_max:
            dropped = self._waiting.pop()
            self._waiting_bytes -= len(dropped.value)
            if dropped.note:
                left.append(dropped.note)
            else:
                self._dropped += 1
        return left

    def statistics(self) -> AuditStatistics:
        return AuditStatistics(self._written, self._dropped, self._waiting_bytes)


def _key_of(event: AuditEvent) -> AuditEvent:
    """Returns what has to be equal for two events to be one record."""
    if event.event in (AuditKind.OFFSETS, AuditKind.RECORDS):  # which offsets is in the first record only
        return msgspec.structs.replace(event, before="", after="")
    if event.event is not AuditKind.LOGIN or event.principal:
        return event
    return msgspec.structs.replace(event, host=_network_of(event.host))


def _network_of(host: str) -> str:
    """Returns the network of an address: who has one address of it often has all."""
    try:
        bits = _NETWORK_BITS[ip_address(host).version]
        return str(ip_network((host, bits), strict=False))
    except ValueError:
        return host
