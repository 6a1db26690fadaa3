"""Malformed record batches whose CRCs are right: only the records show what is wrong with them."""

from collections.abc import Callable
from random import Random

from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, Codec, patch_checksum, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.compression import compress
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.kafka_batches import with_body, with_header

TIMESTAMP_MS = 1_700_000_000_000
INT64 = (-(2**63), -1, 0, 1, TIMESTAMP_MS, 2**62, 2**63 - 1)
INT32 = (-(2**31), -1, 0, 1, 7, 2**31 - 1)
INT16 = (-(2**15), -1, 0, 1, 2**15 - 1)

SHORTEST_RECORD = bytes([14, 0, 0, 0, 2, 107, 1, 0])
"""A key of one byte and nothing else, at offset delta 0."""

Mutation = Callable[[Random, bytearray], bytearray]


def random_batch(rng: Random) -> bytearray:
    """Returns a batch as a producer might send it."""
    records = [
        Record(
            timestamp_ms=TIMESTAMP_MS + rng.randint(-1_000, 1_000),
            key=rng.choice((b"k", b"", None, rng.randbytes(rng.randint(1, 20)))),
            value=rng.choice((None, b"", rng.randbytes(rng.randint(1, 200)), b"v" * rng.randint(1, 3_000))),
            headers=tuple(("name", rng.choice((None, b"x"))) for _ in range(rng.choice((0, 0, 0, 1, 3)))),
        )
        for _ in range(rng.choice((1, 1, 2, 5, 30)))
    ]
    return build_batch(records, compression=rng.choice(list(Codec)))


def mutated_batch(rng: Random) -> bytearray:
    batch = random_batch(rng)
    for _ in range(rng.choice((1, 1, 2))):
        batch = rng.choice(MUTATIONS)(rng, batch)
    return batch


def bomb(rng: Random) -> bytearray:
    """Little to send and much to read: one record of zeros, or very many that are all alike."""
    codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    if rng.random() < 0.5:
        count, body = 1, bytes(rng.choice((1 << 20, 8 << 20, 40 << 20, 140 << 20)))
    else:
        count = rng.choice((10_000, 300_000, 1_000_000, 5_000_000))
        body = SHORTEST_RECORD * count
    packed = bytes(compress(codec, body))
    return with_body(
        random_batch(rng), packed, attributes=int(codec), record_count=count, last_offset_delta=count - 1
    )


# -- mutations -------------------------------------------------------------------------------------------


def _header(rng: Random, batch: bytearray) -> bytearray:
    field, values = rng.choice((
        ("attributes", (*INT16, *range(8), 0x08, 0x10, 0x20, 0x40)),
        ("last_offset_delta", INT32),
        ("record_count", INT32),
        ("base_timestamp_ms", INT64),
        ("max_timestamp_ms", INT64),
        ("producer_id", INT64),
        ("producer_epoch", INT16),
        ("base_sequence", INT32),
        ("base_offset", INT64),
        ("partition_leader_epoch", INT32),
        ("magic", (0, 1, 3, -1)),
        ("batch_length", INT32),
    ))  # fmt: skip
    return with_header(batch, **{field: rng.choice(values)})


def _count(rng: Random, batch: bytearray) -> bytearray:
    """Both numbers agree with each other, and not with the records."""
    count = max(1, read_batch_header(batch).record_count + rng.choice((-2, -1, 1, 2, 1_000)))
    count = min(count, INT32[-1])
    return with_header(batch, record_count=count, last_offset_delta=count - 1)


def _sequenced(rng: Random, batch: bytearray) -> bytearray:
    return with_header(
        batch,
        producer_id=rng.choice((0, 7, 2**63 - 1)),
        producer_epoch=rng.choice((0, 1, 2**15 - 1)),
        base_sequence=rng.choice((0, 1, 2**31 - 1)),
    )


def _flip(rng: Random, batch: bytearray) -> bytearray:
    """Mutates the records as they are stored: of a compressed batch, the compressed stream."""
    changed = bytearray(batch)
    for _ in range(rng.randint(1, 6)):
        if len(changed) > BATCH_HEADER_BYTES:
            changed[rng.randrange(BATCH_HEADER_BYTES, len(changed))] ^= 1 << rng.randrange(8)
    patch_checksum(changed)
    return changed


def _cut(rng: Random, batch: bytearray) -> bytearray:
    body = bytes(batch[BATCH_HEADER_BYTES:])
    return with_body(batch, body[: rng.randint(0, len(body))])


def _noise(rng: Random, batch: bytearray) -> bytearray:
    return with_body(batch, rng.randbytes(rng.randint(0, 200)))


def _extreme_lengths(rng: Random, batch: bytearray) -> bytearray:
    """Varints of the largest sizes in the place of a few bytes, before compression."""
    header = read_batch_header(batch)
    body = bytearray(SHORTEST_RECORD * max(1, min(header.record_count, 50)))
    for _ in range(rng.randint(1, 3)):
        position = rng.randrange(len(body))
        body[position : position + 1] = rng.choice(
            (b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 10, b"\x01")
        )
    codec = Codec(header.codec) if header.codec <= Codec.ZSTD else Codec.NONE
    return with_body(batch, bytes(compress(codec, body)))


MUTATIONS: tuple[Mutation, ...] = (
    _header, _header, _header, _count, _sequenced, _flip, _flip, _cut, _noise, _extreme_lengths,
)  # fmt: skip
