"""Entries for tests of a metadata log: each follows a position and holds one value."""

from hashlib import blake2b

from siltstone.metadata.log_entry import LogEntry, LogPosition, encode_entry
from siltstone.metadata.records import KeySet


def entry_after(position: LogPosition, value: bytes) -> bytes:
    """The append id follows from position and value, so two writers of different values make different entries."""
    append_id = blake2b(b"%d %s" % (position.version, value), digest_size=16).hexdigest()
    return encode_entry(LogEntry(append_id, (KeySet("value", value),), position.append_id))


def entry_before_the_chain(value: bytes) -> bytes:
    append_id = blake2b(value, digest_size=16).hexdigest()
    return encode_entry(LogEntry(append_id, (KeySet("value", value),), previous=None))


def append_values(log, *values: bytes) -> LogPosition:
    """Appends one entry for each value; returns the new head."""
    head = log.head()
    for value in values:
        head = log.append(entry_after(head, value), head)
    return head
