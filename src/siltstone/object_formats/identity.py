"""Encodes identities: the small files that bind a write-ahead log folder and a bucket to their store.

Each file is one line of JSON (here broken for the page), which people can read as well. ``crc32c``, 8 hex digits, is
the checksum of the JSON object without that field:

    {"kind":"log","format":4,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"metadata_version":17,
     "append_id":"<32 hex>","files":[0,67108864],"crc32c":"0a1b2c3d"}
    {"kind":"log","format":3,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"metadata_version":17,
     "append_id":"<32 hex>","crc32c":"0a1b2c3d"}    read, not written
    {"kind":"log","format":2,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"metadata_version":17,
     "crc32c":"0a1b2c3d"}    read, not written
    {"kind":"log","format":1,"store_id":"<32 hex>","node_id":0,"node_epoch":3,"crc32c":"0a1b2c3d"}    read, not written
    {"kind":"store","format":1,"store_id":"<32 hex>","crc32c":"0a1b2c3d"}
    {"kind":"store","format":2,"store_id":"<32 hex>","bucket_id":1,"crc32c":"0a1b2c3d"}

A log's identity is the file ``identity.json`` in the log's folder. Its ``node_epoch`` is the epoch with which the node
last began to append there; its ``metadata_version`` is the version of the metadata at that moment, or at the node's
last clean close, and its ``append_id`` is the append id of the metadata's entry at that version, 32 zeros when there is
none. Its ``files`` are the first positions of the oldest and of the newest log file that may hold records that are not
committed, ``[]`` when there is none; ``null`` when that is not known, as in the claims of a log in a bucket. A store's
identity is the object ``siltstone-store.json`` in each of its buckets. Format 2 also has the bucket's
id. Bucket 0 has format 1, which older programs read, and so has every bucket that was marked before format 2 existed.
"""

import re

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData

IDENTITY_BYTES_MAX = 4_096
"""A longer file is not an identity. Readers need not read more than this."""

LOG_FORMAT = 4
STORE_FORMAT = 2
_STORE_FORMAT_WITHOUT_BUCKET = 1
_NO_APPEND_ID = "00" * 16
_LINE = re.compile(rb'(\{.*),"crc32c":"([0-9a-f]{8})"\}\n')


class DamagedIdentity(CorruptData):
    """The file is not an identity of the expected kind, or is damaged."""


class IdentityOfNewerVersion(DamagedIdentity):
    """A newer version of this program wrote the identity. Nothing is damaged, so nobody deletes it."""


class LogIdentity(msgspec.Struct, frozen=True):
    """``files``: the first positions of the oldest and the newest log file; empty: there is none; None: not known."""

    store_id: str
    node_id: int
    node_epoch: int
    metadata_version: int = 0
    append_id: str = _NO_APPEND_ID
    files: tuple[int, ...] | None = None


class StoreIdentity(msgspec.Struct, frozen=True):
    """``bucket_id`` None: the marker does not say which bucket it is in."""

    store_id: str
    bucket_id: int | None = None


class _LogLine(msgspec.Struct, tag="log", tag_field="kind"):
    format: int
    store_id: str
    node_id: int
    node_epoch: int
    metadata_version: int = 0
    append_id: str = _NO_APPEND_ID
    files: tuple[int, ...] | None = None


class _StoreLine(msgspec.Struct, tag="store", tag_field="kind", omit_defaults=True):
    format: int
    store_id: str
    bucket_id: int | None = None


def encode_log_identity(identity: LogIdentity) -> bytes:
    return _sealed(
        _LogLine(
            LOG_FORMAT,
            identity.store_id,
            identity.node_id,
            identity.node_epoch,
            identity.metadata_version,
            identity.append_id,
            identity.files,
        )
    )


def decode_log_identity(data: bytes) -> LogIdentity:
    """Raises DamagedIdentity."""
    line = _unsealed(data)
    if not isinstance(line, _LogLine):
        raise DamagedIdentity("it is the identity of a bucket, not of a write-ahead log")
    if line.files is not None and (len(line.files) not in (0, 2) or list(line.files) != sorted(line.files)):
        raise DamagedIdentity(f"it names the files {line.files}, and not the oldest and the newest one")
    return LogIdentity(
        line.store_id, line.node_id, line.node_epoch, line.metadata_version, line.append_id, line.files
    )


def encode_store_identity(identity: StoreIdentity) -> bytes:
    if identity.bucket_id is None:
        return _sealed(_StoreLine(_STORE_FORMAT_WITHOUT_BUCKET, identity.store_id))
    return _sealed(_StoreLine(STORE_FORMAT, identity.store_id, identity.bucket_id))


def decode_store_identity(data: bytes) -> StoreIdentity:
    """Raises DamagedIdentity."""
    line = _unsealed(data)
    if not isinstance(line, _StoreLine):
        raise DamagedIdentity("it is the identity of a write-ahead log, not of a bucket")
    return StoreIdentity(line.store_id, line.bucket_id)


def _sealed(line: _LogLine | _StoreLine) -> bytes:
    body = msgspec.json.encode(line)
    return b'%s,"crc32c":"%08x"}\n' % (body[:-1], crc32c([body]))


def _unsealed(data: bytes) -> _LogLine | _StoreLine:
    match = _LINE.fullmatch(data)
    if match is None:
        raise DamagedIdentity(f"it is not an identity: {data[:100]!r}")
    body = match[1] + b"}"
    if int(match[2], 16) != crc32c([body]):
        raise DamagedIdentity("the checksum of the identity does not match")
    try:
        line = msgspec.json.decode(body, type=_LogLine | _StoreLine)
    except msgspec.MsgspecError as error:
        raise DamagedIdentity(f"the identity cannot be decoded: {error}") from error
    newest = LOG_FORMAT if isinstance(line, _LogLine) else STORE_FORMAT
    if line.format > newest:
        raise IdentityOfNewerVersion(
            f"the identity has format {line.format}; this program reads 1 to {newest}: a newer version of Siltstone"
            " wrote it, so use that version"
        )
    if line.format < 1:
        raise DamagedIdentity(f"the identity has format {line.format}; this program reads 1 to {newest}")
    return line
