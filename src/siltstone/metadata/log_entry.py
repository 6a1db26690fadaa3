"""The bytes of one log entry: the records of one append, the append's id, and the id of the append before it.

An entry is a sealed frame (``framing``) with magic "SLOG". Its label is the append id, a random token by which a client
that lost the answer to an append finds out whether its entry is in the log, and then the append id of the entry before.
Its body is a msgpack array of ``records``.

So the entries form a *chain*, and a log that lost its newest entries and continued with others is recognised
(``next_position``): a copy that was restored, or a standby that was promoted too early. Entries of format 1 are older
than the chain; they have no previous entry and count as if they had no append id. The first entry of the chain follows
NO_APPEND_ID, whatever its version is; after it, an entry outside the chain is refused.
"""

import msgspec

from siltstone.metadata.framing import seal, unseal
from siltstone.metadata.records import Record
from siltstone.model.errors import CorruptData

ENTRY_MAGIC = b"SLOG"
ENTRY_FORMAT = 2
APPEND_ID_BYTES = 16
NO_APPEND_ID = "00" * APPEND_ID_BYTES
"""The append id at the beginning of a log, and of entries that are older than the chain."""


class RecordUnknown(CorruptData):
    """The entry is undamaged, but has a record that this program does not know: a newer version wrote it."""


class LogForked(CorruptData):
    """The log has another history than the one that was read from it before: it lost entries and continued with
    others."""


class LogPosition(msgspec.Struct, frozen=True):
    """A place in the log: after the entry ``version``, which has this append id."""

    version: int = 0
    append_id: str = NO_APPEND_ID


class EntryLink(msgspec.Struct, frozen=True):
    """The place of an entry in the chain. ``previous`` is None for an entry older than the chain; its append id, which
    the chain ignores, is NO_APPEND_ID here."""

    append_id: str
    previous: str | None


class LogEntry(msgspec.Struct, frozen=True):
    """``append_id`` is 32 hex digits, and so is ``previous``; it is None in an entry that is older than the chain."""

    append_id: str
    records: tuple[Record, ...]
    previous: str | None = NO_APPEND_ID

    @property
    def link(self) -> EntryLink:
        return EntryLink(NO_APPEND_ID if self.previous is None else self.append_id, self.previous)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Record, ...])


def encode_entry(entry: LogEntry) -> bytes:
    """Encodes an entry. One without ``previous`` is written in format 1, as older programs wrote it."""
    return seal(
        ENTRY_MAGIC, bytes.fromhex(entry.append_id + (entry.previous or "")), _encoder.encode(entry.records)
    )


def decode_entry(data: bytes) -> LogEntry:
    """Decodes one entry. Raises the errors of ``framing.unseal``, RecordUnknown."""
    label, body = unseal(ENTRY_MAGIC, data, newest=ENTRY_FORMAT)
    append_id, previous = _split(label)
    try:
        return LogEntry(append_id, _decoder.decode(body), previous)
    except msgspec.MsgspecError as error:
        raise RecordUnknown(
            f"an entry of the metadata log cannot be decoded ({error}); use the version that wrote it"
        ) from error


def link_of(data: bytes) -> EntryLink:
    """Returns the place of an encoded entry in the chain. Raises the errors of ``framing.unseal``."""
    append_id, previous = _split(unseal(ENTRY_MAGIC, data, newest=ENTRY_FORMAT)[0])
    return EntryLink(NO_APPEND_ID if previous is None else append_id, previous)


def _split(label: bytes) -> tuple[str, str | None]:
    """Returns append id and previous append id of a frame's label."""
    append_id, previous = label[:APPEND_ID_BYTES].hex(), label[APPEND_ID_BYTES:].hex()
    return append_id, previous or None


def next_position(position: LogPosition, link: EntryLink) -> LogPosition:
    """Returns the position after an entry that was read at ``position``. Raises LogForked."""
    version = position.version + 1
    if link.previous is None and position.append_id != NO_APPEND_ID:
        raise LogForked(
            f"entry {version} of the metadata log names no entry before it, although entry {position.version} does: a "
            f"program that is too old wrote it. {_what_to_restore(position)}"
        )
    if link.previous is not None and link.previous != position.append_id:
        raise LogForked(
            f"entry {version} of the metadata log follows another entry {position.version} (append {link.previous}) "
            f"than this process has read or written. {_what_to_restore(position)}"
        )
    return LogPosition(version, link.append_id)


def refuse_fork(head: LogPosition, position: LogPosition) -> None:
    """Raises LogForked when the log has another entry at the version of ``position``."""
    if head.version == position.version and head.append_id != position.append_id:
        raise LogForked(
            f"entry {head.version} of the metadata log is another one (append {head.append_id}) than this process has "
            f"read or written. {_what_to_restore(position)}"
        )


def _what_to_restore(position: LogPosition) -> str:
    return (
        "The log lost entries and continued with others: an older copy was restored, or a standby without the newest "
        "entries was promoted. Stop every node, delete nothing, and restore the copy of the log in which entry "
        f"{position.version} has append id {position.append_id}"
    )
