"""Who owns a place: the small files that tie a write-ahead log folder and a bucket to their store.

One line of JSON, for people to read as well. ``crc32c``, 8 hex digits, is that of the line without it, up to ``}``:

    {"kind":"log","format":2,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"metadata_version":17,"crc32c":"0a1b2c3d"}
    {"kind":"log","format":1,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"crc32c":"0a1b2c3d"}    read, not written
    {"kind":"store","format":1,"store_id":"<32 hex>","crc32c":"0a1b2c3d"}

The first lies in the log's folder as ``identity.json``; ``node_epoch`` is that of the life of the node that last began
to append there, ``metadata_version`` that of the metadata when it began, or ended well. The second lies in each bucket
as ``siltstone-store.json``.
"""

import re

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData

IDENTITY_BYTES_MAX = 4_096
"""Nobody need read more of a file to see that it is none of these."""

LOG_FORMAT = 2
STORE_FORMAT = 1
_LINE = re.compile(rb'(\{.*),"crc32c":"([0-9a-f]{8})"\}\n')


class DamagedIdentity(CorruptData):
    """The file is none of these, is damaged, or was written by another version of this program."""


class LogIdentity(msgspec.Struct, frozen=True):
    store_id: str
    node_id: int
    node_epoch: int
    metadata_version: int = 0


class StoreIdentity(msgspec.Struct, frozen=True):
    store_id: str


class _LogLine(msgspec.Struct, tag="log", tag_field="kind"):
    format: int
    store_id: str
    node_id: int
    node_epoch: int
    metadata_version: int = 0


class _StoreLine(msgspec.Struct, tag="store", tag_field="kind"):
    format: int
    store_id: str


def encode_log_identity(identity: LogIdentity) -> bytes:
    return _sealed(
        _LogLine(
            LOG_FORMAT, identity.store_id, identity.node_id, identity.node_epoch, identity.metadata_version
        )
    )


def decode_log_identity(data: bytes) -> LogIdentity:
    """Raises DamagedIdentity."""
    line = _unsealed(data)
    if not isinstance(line, _LogLine):
        raise DamagedIdentity("a bucket's identity where a log's was expected")
    return LogIdentity(line.store_id, line.node_id, line.node_epoch, line.metadata_version)


def encode_store_identity(identity: StoreIdentity) -> bytes:
    return _sealed(_StoreLine(STORE_FORMAT, identity.store_id))


def decode_store_identity(data: bytes) -> StoreIdentity:
    """Raises DamagedIdentity."""
    line = _unsealed(data)
    if not isinstance(line, _StoreLine):
        raise DamagedIdentity("a log's identity where a bucket's was expected")
    return StoreIdentity(line.store_id)


def _sealed(line: _LogLine | _StoreLine) -> bytes:
    body = msgspec.json.encode(line)
    return b'%s,"crc32c":"%08x"}\n' % (body[:-1], crc32c([body]))


def _unsealed(data: bytes) -> _LogLine | _StoreLine:
    match = _LINE.fullmatch(data)
    if match is None:
        raise DamagedIdentity(f"{data[:100]!r} is no line of an identity")
    body = match[1] + b"}"
    if int(match[2], 16) != crc32c([body]):
        raise DamagedIdentity("the checksum of an identity does not match")
    try:
        line = msgspec.json.decode(body, type=_LogLine | _StoreLine)
    except msgspec.MsgspecError as error:
        raise DamagedIdentity(f"an identity that cannot be read: {error}") from error
    newest = LOG_FORMAT if isinstance(line, _LogLine) else STORE_FORMAT
    if not 1 <= line.format <= newest:
        raise DamagedIdentity(f"identity format {line.format}; this program reads 1 to {newest}")
    return line
