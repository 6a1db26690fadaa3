"""Nouns of the audit: its topic, how much of what happens it has, what happened, and the record that says so.

A record is JSON, and ``AuditRecord`` is its layout: a released field keeps its name and its meaning, a new one has a
default, and a change of meaning gets another ``v``. A field without a value is left out. No field ever has a password,
a salt, a key, a token or a byte of an exchange of SASL, since no event has one. What a command
is in the audit: ``metadata.changes``; how events become records: ``broker.security.audit``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from siltstone.model.errors import CorruptData

AUDIT_TOPIC = "__siltstone_audit"
AUDIT_VERSION = 1

NAME_CHARACTERS = 300
"""Names of topics have 249 characters at most; other names in an event are cut here."""

TEXT_CHARACTERS = 1_000
"""What was before a change, and after it, is cut here: an event is bounded, whatever a client writes."""

PARTITIONS_SHOWN = 40
"""The most partitions whose offsets an event shows."""


class AuditLevel(StrEnum):
    """What the audit has."""

    OFF = "off"
    CHANGES = "changes"
    """Changes of topics, configurations, users, rights, quotas, offsets, nodes and buckets, and maintenance."""
    ALL = "all"
    """Logins and refusals, too."""


class AuditKind(StrEnum):
    """What an event is about."""

    LOGIN = "login"
    DENIED = "denied"
    TOPIC = "topic"
    CONFIG = "config"
    RECORDS = "records"
    USER = "user"
    ACL = "acl"
    QUOTA = "quota"
    OFFSETS = "offsets"
    MODE = "mode"
    SESSION_END = "session_end"
    NODE = "node"
    BUCKET = "bucket"
    MAINTENANCE = "maintenance"
    DROPPED = "dropped"
    """So many events are missing, because there were too many."""


GATHERED = frozenset({AuditKind.LOGIN, AuditKind.DENIED, AuditKind.OFFSETS, AuditKind.RECORDS})
"""Of these, events that are equal become one record with a count: clients can make any number of them."""


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. ``principal``: in whose name; of a command on the metadata that is the user of the
    operating system, such as ``OS:ops``. ``rule``: the ACL that decided, or why a login failed."""

    event: AuditKind
    outcome: str = "done"
    principal: str = ""
    host: str = ""
    listener: str = ""
    api: str = ""
    operation: str = ""
    resource: str = ""
    rule: str = ""
    before: str = ""
    after: str = ""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``time``: UTC, as in 2026-11-28T19:45:05.123Z; of several events, of the first. ``node``: which node wrote it.
    ``count``: the number of equal events. The other fields are those of AuditEvent."""

    v: int
    time: str
    node: int
    event: str
    outcome: str
    principal: str = ""
    host: str = ""
    listener: str = ""
    api: str = ""
    operation: str = ""
    resource: str = ""
    rule: str = ""
    before: str = ""
    after: str = ""
    count: int = 1


def written_record(event: AuditEvent, time_ms: int, node_id: int, count: int = 1) -> bytes:
    """Returns the record as it stands in the topic."""
    fields = {name: str(getattr(event, name)) for name in event.__struct_fields__}
    return msgspec.json.encode(
        AuditRecord(v=AUDIT_VERSION, time=written_time(time_ms), node=node_id, count=count, **fields)
    )


def written_time(time_ms: int) -> str:
    whole = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


class AuditNoteDamaged(CorruptData):
    """A note for the audit in the metadata cannot be read."""


def shortened(text: str, characters_max: int = NAME_CHARACTERS) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def shown_offsets(offsets: Mapping[tuple[str, int], int], most: int = PARTITIONS_SHOWN) -> str:
    """Returns the offsets of partitions as a field of an event has them."""
    rows = sorted(offsets.items())
    shown = ", ".join(f"{topic}-{index}={offset}" for (topic, index), offset in rows[:most])
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return shortened(shown, TEXT_CHARACTERS) + more
