"""The columns of a block's batches, from blocks that hold every kind of batch."""

import pytest

from siltstone.kafka_protocol.batch_header import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    Codec,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.kafka_protocol.records.reading import Record
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from siltstone.record_columns.batches import (
    AnswerPlace,
    Batches,
    BlockPlace,
    UnreadableBatch,
    batches_of_block,
)
from siltstone.record_columns.kernels import plain
from siltstone.record_columns.kernels.columns import BASE_MS, read_only
from support.engine.objects import index_of
from support.kafka.kafka_batches import with_header
from support.maintenance.compacted_stream import STREAM_ID, CompactedStream, in_batches, numbered_keys

PLACE = BlockPlace(object_id=5, position=300)


def block_of(stream: CompactedStream) -> bytes:
    (data,) = stream.object_bytes()
    (entry,) = index_of(data)
    return bytes(data[: entry.size_bytes])


def batches_of(stream: CompactedStream) -> Batches:
    return batches_of_block(read_only(block_of(stream)), STREAM_ID, PLACE, plain)


@pytest.fixture
def mixed() -> Batches:
    """A plain batch of three records, one of a transaction, its marker, one with log append time, one whose delete
    horizon is at 5,000 ms."""
    stream = CompactedStream(block_bytes=1 << 20)
    stream.add(("a", "1"), ("b", "2"), ("c", "3"), at_ms=100)
    stream.add_transactional(77, ("a", "4"), at_ms=200)
    stream.end_transaction(77, Outcome.COMMIT, at_ms=300)
    one = build_batch([Record(timestamp_ms=400, key=b"k", value=b"v")])
    stream.add_batch(with_header(one, attributes=LOG_APPEND_TIME_BIT | Codec.NONE))
    stream.add_batch(with_header(one, attributes=DELETE_HORIZON_BIT, base_timestamp_ms=5_000))
    return batches_of(stream)


def test_each_flag_is_that_of_its_batches(mixed: Batches) -> None:
    assert len(mixed) == 5
    assert mixed.are_transactional.tolist() == [False, True, True, False, False]
    assert mixed.are_control.tolist() == [False, False, True, False, False]
    assert mixed.have_log_append_time.tolist() == [False, False, False, True, False]
    assert mixed.have_horizon.tolist() == [False, False, False, False, True]


def test_offsets_counts_and_producers(mixed: Batches) -> None:
    assert mixed.base_offsets.tolist() == [0, 3, 4, 5, 6]
    assert mixed.end_offsets.tolist() == [3, 4, 5, 6, 7]
    assert mixed.record_counts.tolist() == [3, 1, 1, 1, 1]
    assert mixed.producer_ids.tolist() == [NO_PRODUCER_ID, 77, 77, NO_PRODUCER_ID, NO_PRODUCER_ID]
    assert mixed.column(BASE_MS).tolist()[-1] == 5_000


def test_a_horizon_has_passed_from_its_own_millisecond_on_and_batches_without_one_never_expire(
    mixed: Batches,
) -> None:
    assert not mixed.have_expired(4_999).any()
    assert mixed.have_expired(5_000).tolist() == mixed.have_horizon.tolist()


def test_the_codec_is_told_apart_from_the_other_attributes(mixed: Batches) -> None:
    assert mixed.codecs.tolist() == [Codec.NONE] * 5
    stream = CompactedStream(block_bytes=1 << 20)
    for codec in Codec:
        in_batches(stream, numbered_keys(3, 3), 3, codec)
    assert batches_of(stream).codecs.tolist() == [*map(int, Codec)]


def test_the_payload_of_a_row_is_the_batch_without_its_frame(mixed: Batches) -> None:
    assert int(mixed.sizes.sum()) == len(mixed.data), "the frames fill the block"
    for row in range(len(mixed)):
        payload = mixed.payload(row)
        assert len(payload) == mixed.sizes[row] - FRAME_HEADER_BYTES
        header = read_batch_header(bytes(payload))
        assert (header.base_offset, header.record_count) == (
            mixed.base_offsets[row],
            mixed.record_counts[row],
        )


@pytest.mark.parametrize(
    ("where", "words", "object_id"),
    [
        (PLACE, "the block at 300 of object 5", 5),
        (AnswerPlace("n:1"), "an answer of the broker at n:1", None),
    ],
)
def test_damage_names_its_place(where: BlockPlace | AnswerPlace, words: str, object_id: int | None) -> None:
    stream = CompactedStream(block_bytes=1 << 20)
    stream.add(("a", "1"))
    damaged = bytearray(block_of(stream))
    damaged[FRAME_HEADER_BYTES + 16] = 9
    for data, stream_id in ((bytes(damaged), STREAM_ID), (block_of(stream), STREAM_ID + 1)):
        with pytest.raises(
            UnreadableBatch, match=f"^{words} holds bytes that are not record batches: "
        ) as told:
            batches_of_block(read_only(data), stream_id, where, plain)
        assert told.value.object_id == object_id
