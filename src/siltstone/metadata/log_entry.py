"""The bytes of one log entry: the records of one append, and the append's id.

An entry is a sealed frame (``framing``) with magic "SLOG". Its label is the append id, a random token by which a client
that lost the answer to an append finds out whether its entry is in the log. Its body is a msgpack array of
``records``.
"""

import msgspec

from siltstone.metadata.framing import seal, unseal
from siltstone.metadata.records import Record
from siltstone.model.errors import CorruptData

ENTRY_MAGIC = b"SLOG"


class RecordUnknown(CorruptData):
    """The entry is undamaged, but has a record that this program does not know: a newer version wrote it."""


class LogEntry(msgspec.Struct, frozen=True):
    """``append_id`` is 32 hex digits."""

    append_id: str
    records: tuple[Record, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Record, ...])


def encode_entry(entry: LogEntry) -> bytes:
    return seal(ENTRY_MAGIC, bytes.fromhex(entry.append_id), _encoder.encode(entry.records))


def decode_entry(data: bytes) -> LogEntry:
    """Decodes one entry. Raises the errors of ``framing.unseal``, RecordUnknown."""
    label, body = unseal(ENTRY_MAGIC, data)
    try:
        return LogEntry(label.hex(), _decoder.decode(body))
    except msgspec.MsgspecError as error:
        raise RecordUnknown(
            f"an entry of the metadata log cannot be decoded ({error}); use the version that wrote it"
        ) from error


def append_id_of(data: bytes) -> str:
    """Returns the append id of an encoded entry. Raises the errors of ``framing.unseal``."""
    return unseal(ENTRY_MAGIC, data)[0].hex()
