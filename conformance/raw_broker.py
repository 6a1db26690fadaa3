"""Three requests that no client makes so: which APIs the broker announces, how it stores batches, and a quota."""

import socket
import struct
from contextlib import closing

import msgspec

_API_VERSIONS, _FETCH, _ALTER_CLIENT_QUOTAS = 18, 1, 49
_FETCH_VERSION = 4
_SECONDS_MAX = 10
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


class StoredBatch(msgspec.Struct, frozen=True):
    """The fields of the header of a record batch."""

    base_offset: int
    records: int
    codec: str
    has_log_append_time: bool
    producer_id: int


def announced_apis(bootstrap: str) -> frozenset[int]:
    answer = _ask(bootstrap, _API_VERSIONS, 0, b"")
    (count,) = struct.unpack_from(">i", answer, 2)
    return frozenset(struct.unpack_from(">h", answer, 6 + 6 * index)[0] for index in range(count))


def stored_batches(bootstrap: str, topic: str, partition: int, offset: int = 0) -> list[StoredBatch]:
    """Returns the batches of one fetch."""
    name = topic.encode()
    body = struct.pack(">iiiibi", -1, 1_000, 1, 64 << 20, 0, 1)
    body += struct.pack(f">h{len(name)}siiqi", len(name), name, 1, partition, offset, 64 << 20)
    answer = _ask(bootstrap, _FETCH, _FETCH_VERSION, body)
    at = 4 + 4 + 2 + len(name) + 4  # throttle, topics, name, partitions
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error:
        raise ValueError(f"Fetch of {topic}-{partition} at {offset}: error {error}")
    at += struct.calcsize(">ihqqi") + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return _batches(answer[at + 4 : at + 4 + size])


def limit_producers(bootstrap: str, user: str, bytes_per_second: float) -> None:
    body = struct.pack(">ii", 1, 1) + _text("user") + _text(user)
    body += (
        struct.pack(">i", 1)
        + _text("producer_byte_rate")
        + struct.pack(">d??", bytes_per_second, False, False)
    )
    _, _, error = struct.unpack_from(">iih", _ask(bootstrap, _ALTER_CLIENT_QUOTAS, 0, body))
    if error:
        raise ValueError(f"AlterClientQuotas of {user}: error {error}")


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _batches(records: bytes) -> list[StoredBatch]:
    batches: list[StoredBatch] = []
    while len(records) >= _BATCH_HEADER.size:
        base, length, _, _, _, attributes, _, _, _, producer_id, _, _, count = _BATCH_HEADER.unpack_from(
            records
        )
        codec = CODEC_NAMES[attributes & 7]
        batches.append(StoredBatch(base, count, codec, bool(attributes & 8), producer_id))
        records = records[12 + length :]
    return batches


def _ask(bootstrap: str, api_key: int, version: int, body: bytes) -> bytes:
    """Returns the body of the answer, after its correlation id."""
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhih3s", api_key, version, 7, 3, b"raw") + body
    with closing(socket.create_connection((host, int(port)), _SECONDS_MAX)) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return _receive(connection, size)[4:]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError(f"closed after {len(received)} of {size} bytes")
        received += part
    return bytes(received)
