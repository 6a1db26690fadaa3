"""Batches as they should not be, with CRCs that hold, into topics of every kind: each is answered, in its own row; what
was taken can be read again, by offset and by time; and others are served meanwhile.

``FUZZ_SEED=7 pytest tests/fuzz/test_batches.py`` sends those of another seed.
"""

from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.compression import compress
from support.kafka.batch_mutations import bomb, mutated_batch, random_batch
from support.kafka.fuzzing import MEBIBYTE, Siege
from support.kafka.kafka_batches import with_body
from support.kafka.raw_calls import (
    RawTopic,
    batches_in,
    create_topic,
    fetch,
    list_offset,
    produce,
    produce_request,
    records_in,
)
from support.kafka.raw_kafka import RawConnection
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.fuzz, pytest.mark.xdist_group("fuzz")]

SEED = 20_262
BATCHES, BOMBS = 300, 6
KINDS = {
    "plain": {},
    "full": {"siltstone.record.validation": "full"},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "lz4": {"compression.type": "lz4", "siltstone.record.validation": "full"},
    "uncompressed": {"compression.type": "uncompressed"},
    "no-old-ones": {"message.timestamp.before.max.ms": "1000000000000"},
}
REFUSALS = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # a mutated batch says that it is transactional
}
"""What a batch may be answered with; what no batch is answered with is a fault of the broker."""

TIMES = (-3, 0, 1_700_000_000_000, 2**62)


def sent(siege: Siege, connection: RawConnection, topic: RawTopic, batch: bytes, what: str) -> bool:
    """Whether it was taken."""
    siege.note = f"{what} into {topic.name}"
    row = produce(connection, topic, batch, version=9)
    assert row.error_code in REFUSALS, (siege.note, row)
    return bool(row.error_code == 0)


def assert_readable(connection: RawConnection, topic: RawTopic, *, is_valid: bool) -> None:
    """To the end, batch by batch; record by record where records were looked at."""
    offset, end = 0, fetch(connection, topic, 0).high_watermark
    while offset < end:
        row = fetch(connection, topic, offset, bytes_max=1)
        (batch_end,) = [last + 1 for _, last in batches_in(row)]
        assert batch_end > offset
        if is_valid:
            assert [record.offset for record in records_in(row)] == [*range(offset, batch_end)]
        offset = batch_end
    for time in TIMES:
        found = list_offset(connection, topic, time)
        assert found.error_code in (
            0,
            ErrorCode.INVALID_RECORD,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.MESSAGE_TOO_LARGE,
        )
        assert found.error_code == 0 or not is_valid


def sent_as(seed: int, number: int) -> bytes:
    rng = Random(f"{seed}/{number}")
    return bytes(mutated_batch(rng) if rng.random() < 0.8 else random_batch(rng))


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_any_seed_can_be_made(seed: int) -> None:
    assert all(sent_as(seed, number) for number in range(BATCHES))


def test_mutated_batches(tmp_path: Path) -> None:
    send_mutated_batches(tmp_path, seed_of_this_run("FUZZ_SEED", SEED))


def send_mutated_batches(folder: Path, seed: int) -> None:
    with Siege(folder) as siege, siege.connect(timeout_s=60) as connection:
        topics = {kind: create_topic(connection, kind, 1, configs) for kind, configs in KINDS.items()}
        taken = dict.fromkeys(KINDS, 0)
        for number in range(BATCHES):
            batch = sent_as(seed, number)
            for kind, topic in topics.items():
                taken[kind] += sent(siege, connection, topic, batch, f"batch {number}")
        for kind, topic in topics.items():
            siege.note = f"reading {kind}"
            assert 20 < taken[kind] < BATCHES
            assert_readable(connection, topic, is_valid=kind in ("full", "lz4"))
        siege.assert_unharmed()


@pytest.mark.nightly(tried="bombs")
def test_ab04_bombs(tmp_path: Path) -> None:
    send_bombs(tmp_path, seed_of_this_run("FUZZ_SEED", SEED))


def send_bombs(folder: Path, seed: int) -> None:
    with Siege(folder) as siege, siege.connect(timeout_s=60) as connection:
        topics = {kind: create_topic(connection, kind, 1, configs) for kind, configs in KINDS.items()}
        for number in range(BOMBS):
            batch = bytes(bomb(Random(f"{seed}/{number}")))
            for topic in topics.values():
                sent(siege, connection, topic, batch, f"bomb {number}")
        for kind, topic in topics.items():
            siege.note = f"reading {kind}"
            assert_readable(connection, topic, is_valid=kind in ("full", "lz4"))
        siege.assert_unharmed()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_ab04_a_hundred_bombs_at_once(tmp_path: Path, record_tried: RecordTried) -> None:
    """Of gzip, LZ4 and Zstandard each is more than a batch may be; Snappy makes less of a MiB than is allowed."""
    with Siege(tmp_path, settings=WAITING_ROOM) as siege, ExitStack() as opened:
        siege.note = "a hundred bombs"
        topic = create_topic(opened.enter_context(siege.connect(timeout_s=60)), "full", 1, KINDS["full"])
        connections = [opened.enter_context(siege.connect(timeout_s=300)) for _ in range(100)]
        made = [largest_bomb(codec) for codec in PIECES]
        for number, connection in enumerate(connections):
            connection.send(produce_request(topic, {0: made[number % len(made)]}), 9)
        for number, connection in enumerate(connections):
            (row,) = connection.receive().topics[0].partitions
            is_small = number % len(made) == 3
            assert row.error_code == (ErrorCode.NONE if is_small else ErrorCode.MESSAGE_TOO_LARGE), row
        siege.assert_unharmed()
    record_tried("bombs", len(connections))
    record_tried("milliseconds of the longest stall", round(siege.worst_stall_s * 1_000))
    record_tried("MiB resident at most", siege.most_resident_bytes // MEBIBYTE)


WAITING_ROOM = {"network.queued_max_request_bytes": str(128 * MEBIBYTE)}
"""Room for all of them, as in a broker with default settings: beyond this no connection is read, that of no witness
either."""

PIECES = {
    Codec.GZIP: (16 * MEBIBYTE, 32),
    Codec.LZ4: (200 * MEBIBYTE, 1),  # of several frames only the first one counts, as in Kafka
    Codec.ZSTD: (16 * MEBIBYTE, 64),
    Codec.SNAPPY: (16 * MEBIBYTE, 1),
}
"""What a batch of less than a MiB decompresses to: bytes, and how often."""


def largest_bomb(codec: Codec) -> bytes:
    """One record, whose value is zeros."""
    piece_bytes, times = PIECES[codec]
    record_bytes = times * piece_bytes - 5
    head = zigzag(record_bytes) + bytes((0, 0, 0, 1)) + zigzag(record_bytes - 10)
    first = bytes(compress(codec, head + bytes(piece_bytes - len(head))))
    others = bytes(compress(codec, bytes(piece_bytes))) * (times - 1) if times > 1 else b""
    fields = {"attributes": int(codec), "record_count": 1, "last_offset_delta": 0}
    return bytes(with_body(random_batch(Random(1)), first + others, **fields))


def zigzag(number: int) -> bytes:
    """Five bytes, whatever the number."""
    number <<= 1
    return bytes(number >> 7 * place & 127 | 128 * (place < 4) for place in range(5))


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(5))
def test_mutated_batches_of_many_seeds(tmp_path: Path, part: int, record_tried: RecordTried) -> None:
    """Other seeds each night, printed."""
    seed = seed_of_this_run("FUZZ_SEED")
    record_tried("seeds", 1)
    send_mutated_batches(tmp_path / "mutated", seed)
    record_tried("mutated batches", BATCHES * len(KINDS))
    send_bombs(tmp_path / "bombs", seed)
    record_tried("bombs", BOMBS * len(KINDS))
