"""The bytes of one log entry: the records of one append, the append's id, and the id of the append before it.

An entry is a sealed frame with magic "SLOG". Its label is the append id, a random token by which a client that lost the
answer to an append finds out whether its entry is in the log, and then the append id of the entry before. Its body is a
msgpack array of ``records``.

So the entries form a *chain*, and a log that lost its newest entries and continued with others is recognised
(``next_position``): a copy that was restored, or a standby that was promoted too early. Entries of format 1 are older
than the chain; they have no previous entry and count as if they had no append id. The first entry of the chain follows
NO_APPEND_ID, whatever its version is; after it, an entry outside the chain is refused.

A *sealed frame* is a header with a checksum round the body of a log entry, or of a chunk of a ``snapshot``. Little
endian; the label has 16 bytes in format 1 and 32 in format 2, which otherwise are equal:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic: the kind of frame
4      4    format version, 1 or 2
8      8    body length in bytes
16     m    label: the append id of a log entry and, in format 2, that of the entry
            before it; number and version of a snapshot chunk, always in format 1
16 + m 4    CRC-32C of the bytes before it and of the body
20 + m n    body, msgpack
====== ==== =======================================================================

A frame is a value of a database, never part of a stream, so bytes after its end are an error.
"""

from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.metadata.records import Record
from siltstone.model.errors import CorruptData

_CRC = Struct("<I")
_CHECKED = {1: Struct("<4sIQ16s"), 2: Struct("<4sIQ32s")}
"""The part of the header before the checksum, by format version."""

_LABEL_FORMATS = {16: 1, 32: 2}
_BEGIN = Struct("<4sI")
FRAME_HEADER_BYTES = _CHECKED[1].size + _CRC.size
assert FRAME_HEADER_BYTES == 36


class FrameTruncated(CorruptData):
    """The frame has fewer bytes than its header says."""


class FrameOverlong(CorruptData):
    """Bytes follow the end of the frame."""


class FrameDamaged(CorruptData):
    """The checksum or the magic does not match."""


class FrameVersionUnknown(CorruptData):
    """The frame was written by another version of this program."""


def seal(magic: bytes, label: bytes, body: bytes) -> bytes:
    """Makes a frame: with a label of 16 bytes of format 1, with one of 32 bytes of format 2."""
    assert len(magic) == 4 and len(label) in _LABEL_FORMATS
    version = _LABEL_FORMATS[len(label)]
    checked = _CHECKED[version].pack(magic, version, len(body), label)
    return b"".join((checked, _CRC.pack(crc32c([checked, body])), body))


def unseal(magic: bytes, frame: bytes, *, newest: int = 1) -> tuple[bytes, memoryview]:
    """Returns label and body of a frame up to format ``newest``. Raises FrameTruncated, FrameOverlong, FrameDamaged,
    FrameVersionUnknown."""
    if len(frame) < FRAME_HEADER_BYTES:
        raise _truncated_header(frame, FRAME_HEADER_BYTES)
    found_magic, version = _BEGIN.unpack_from(frame)
    if found_magic != magic:
        raise FrameDamaged(
            f"a metadata frame has magic {found_magic!r} instead of {magic!r}; restore the database from a backup"
        )
    if not 1 <= version <= newest:
        raise FrameVersionUnknown(
            f"a metadata frame has format {version}, and this program reads format {newest}; "
            "use the version that wrote it"
        )
    checked = _CHECKED[version]
    if len(frame) < checked.size + _CRC.size:
        raise _truncated_header(frame, checked.size + _CRC.size)
    _, _, length, label = checked.unpack_from(frame)
    return label, _checked_body(frame, checked.size, length)


def _truncated_header(frame: bytes, header_length: int) -> FrameTruncated:
    return FrameTruncated(
        f"a metadata frame has {len(frame)} bytes, less than its header of {header_length}; "
        "restore the database from a backup"
    )


def _checked_body(frame: bytes, checked_length: int, length: int) -> memoryview:
    body = memoryview(frame)[checked_length + _CRC.size :]
    if len(body) < length:
        raise FrameTruncated(
            f"the body of a metadata frame has {len(body)} of {length} bytes; restore the database from a backup"
        )
    if len(body) > length:
        raise FrameOverlong(
            f"{len(body) - length} bytes follow the end of a metadata frame; restore the database from a backup"
        )
    (stored,) = _CRC.unpack_from(frame, checked_length)
    if stored != crc32c([frame[:checked_length], body]):
        raise FrameDamaged(
            "the checksum of a metadata frame does not match; restore the database from a backup"
        )
    return body


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
    """Decodes one entry. Raises the errors of ``unseal``, RecordUnknown."""
    label, body = unseal(ENTRY_MAGIC, data, newest=ENTRY_FORMAT)
    append_id, previous = _split(label)
    try:
        return LogEntry(append_id, _decoder.decode(body), previous)
    except msgspec.MsgspecError as error:
        raise RecordUnknown(
            f"an entry of the metadata log cannot be decoded ({error}); use the version that wrote it"
        ) from error


def link_of(data: bytes) -> EntryLink:
    """Returns the place of an encoded entry in the chain. Raises the errors of ``unseal``."""
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
