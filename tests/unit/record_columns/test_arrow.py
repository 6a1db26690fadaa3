"""Arrow columns against the plain reader of records, ``iterate_records``, by both kinds of kernels."""

import random
import tracemalloc
from struct import pack_into
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.batch_header import (
    LOG_APPEND_TIME_BIT,
    Codec,
    patch_log_append_time,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import FRAME_HEADER, FRAME_MAGIC
from siltstone.record_columns.arrow import RecordRows, TimestampNotInRange, arrow_schema
from siltstone.record_columns.batches import Batches, BlockPlace, UnreadableBatch, batches_of_block
from siltstone.record_columns.kernels import compiled, plain
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.kernels.port import Kernels
from siltstone.record_columns.row_columns import ALL_COLUMNS
from support.kafka.kafka_batches import with_body, with_header
from support.values.examples import examples

STREAM_ID = 5
KERNELS = pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])

nullable = st.one_of(st.none(), st.binary(max_size=100))
times = st.one_of(st.just(-1), st.integers(0, 2**42), st.integers(-(2**51), 2**51))
records = st.lists(
    st.builds(
        Record,
        timestamp_ms=times,
        key=nullable,
        value=nullable,
        headers=st.lists(st.tuples(st.text(max_size=3), nullable), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


class Given(msgspec.Struct):
    """A batch of a block: what it holds, and in which form."""

    records: list[Record]
    codec: Codec
    form: str
    gap: int


givens = st.lists(
    st.builds(
        Given,
        records,
        st.sampled_from(Codec),
        st.sampled_from(["create", "create", "append", "control", "empty"]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=5,
)


def framed(batch: bytes | bytearray) -> bytes:
    header = read_batch_header(batch)
    return FRAME_HEADER.pack(
        FRAME_MAGIC, 0, STREAM_ID, 1, header.base_offset, header.end_offset, header.record_count, 0, 0, len(batch)
    ) + bytes(batch)  # fmt: skip


def block_of(found: list[Given]) -> tuple[bytes, list[Record]]:
    """A block, and its records as the plain reader reads them."""
    block, expected, offset = b"", [], 1_000
    for each in found:
        if each.form == "control":
            marker = TransactionMarker(Outcome.COMMIT, 0)
            batch = build_control_batch(
                marker, producer_id=9, producer_epoch=0, timestamp_ms=5, base_offset=offset
            )
        else:
            batch = build_batch(each.records, base_offset=offset, attributes=each.codec)
            if each.form == "append":
                patch_log_append_time(batch, 777)
            if each.form == "empty":
                batch = with_body(batch, b"", record_count=0)
            else:
                expected += [*iterate_records(bytes(batch))]
        offset = read_batch_header(batch).end_offset + each.gap
        block += framed(batch)
    return block, expected


def batches_of(block: bytes, kernels: Kernels) -> Batches:
    return batches_of_block(read_only(block), STREAM_ID, BlockPlace(5, 300), kernels)


def rows_of(
    block: bytes, kernels: Kernels, names: Any = ALL_COLUMNS, start: int = 0, end: int = 2**62
) -> list[dict[str, Any]]:
    maker = RecordRows("flights", 3, names, kernels)
    batches = batches_of(block, kernels)
    return [row for each in maker.rows(batches, start, end) for row in each.to_pylist()]


def plain_row(record: Record) -> tuple[Any, ...]:
    headers = [
        {"key": name, "value": None if content is None else bytes(content)}
        for name, content in record.headers
    ]
    key, value = (None if each is None else bytes(each) for each in (record.key, record.value))
    return key, value, record.offset, headers or None


@KERNELS
@settings(max_examples=examples(150))
@given(givens, st.integers(0, 2**32))
def test_sr1_columns_are_what_the_plain_reader_reads(kernels: Kernels, found: list[Given], seed: int) -> None:
    block, expected = block_of(found)
    end_offset = 1_000 + sum(len(each.records) + each.gap for each in found)
    chance = random.Random(seed)
    start, end = sorted(chance.randrange(990, end_offset + 10) for _ in range(2))
    batches = batches_of(block, kernels)
    rows = [
        row
        for each in RecordRows("flights", 3, ALL_COLUMNS, kernels).rows(batches, start, end)
        for row in zip(*(column.to_pylist() for column in columns_of(each)), strict=True)
    ]
    wanted = [record for record in expected if start <= record.offset < end]
    types = {
        offset: int(bool(attributes & LOG_APPEND_TIME_BIT))
        for base, last, attributes in zip(
            batches.base_offsets.tolist(),
            batches.end_offsets.tolist(),
            batches.column(7).tolist(),
            strict=True,
        )
        for offset in range(base, last)
    }
    assert rows == [
        (*plain_row(each), each.timestamp_ms * 1000, types[each.offset], "flights", 3) for each in wanted
    ]


def columns_of(batch: Any) -> list[Any]:
    import pyarrow as pa

    names = ("key", "value", "offset", "headers")
    return [
        *(batch.column(name) for name in names),
        batch.column("timestamp").cast(pa.int64()),
        batch.column("timestampType"),
        batch.column("topic"),
        batch.column("partition"),
    ]


@settings(max_examples=examples(200))
@given(givens, st.integers(0, 2**32))
def test_damaged_blocks_give_the_same_rows_or_a_named_error_alike(found: list[Given], seed: int) -> None:
    block = bytearray(block_of(found)[0])
    chance = random.Random(seed)
    for _ in range(chance.randrange(1, 4)):
        block[chance.randrange(len(block))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    outcomes: list[Any] = []
    for kernels in (compiled, plain):
        try:
            maker, batches = RecordRows("t", 0, ALL_COLUMNS, kernels), batches_of(bytes(block), kernels)
            outcomes.append([each.to_pydict() for each in maker.rows(batches, 0, 2**62)])
        except SiltstoneError as error:
            outcomes.append((type(error), str(error)))
        except (OverflowError, ValueError) as beyond:  # Python's datetime ends at the year 9999
            outcomes.append(type(beyond))
    assert outcomes[0] == outcomes[1]


@KERNELS
def test_sr23_values_are_not_copied_when_they_are_not_wanted(kernels: Kernels) -> None:
    value = b"v" * 10_000
    block, _ = block_of([Given([Record(value=value)] * 50, Codec.NONE, "create", 0)] * 4)
    batches = batches_of(block, kernels)

    def allocated(names: tuple[str, ...]) -> int:
        import pyarrow as pa

        before, pool = pa.total_allocated_bytes(), 0
        tracemalloc.start()
        made = [*RecordRows("t", 0, names, kernels).rows(batches, 0, 2**62)]
        pool = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
        tracemalloc.stop()
        assert sum(each.num_rows for each in made) == 200
        return pool

    allocated(("offset",))
    assert allocated(("offset",)) * 5 < allocated(ALL_COLUMNS)
    assert allocated(ALL_COLUMNS) > 200 * 10_000


@KERNELS
@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1])
def test_a_record_count_that_lies_is_an_error(kernels: Kernels, count: int) -> None:
    batch = build_batch([Record(value=b"a"), Record(value=b"b")], base_offset=1_000)
    block = bytearray(framed(with_header(batch, record_count=count)))
    pack_into("<Q", block, 40, count)
    with pytest.raises(UnreadableBatch):
        rows_of(bytes(block), kernels)


@KERNELS
def test_bytes_after_the_headers_are_an_error_that_names_the_block(kernels: Kernels) -> None:
    block = framed(with_body(build_batch([Record()]), bytes([16, 0, 0, 0, 1, 1, 0, 7, 7])))
    assert len(rows_of(block, kernels, ("offset",))) == 1
    with pytest.raises(UnreadableBatch, match=r"block at 300 of object 5.*2 bytes follow"):
        rows_of(block, kernels)


@KERNELS
def test_batches_of_arrow_are_cut_by_rows_and_by_bytes(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, _ = block_of([Given([Record(value=b"v" * 10)] * 10, Codec.LZ4, "create", 0)] * 2)

    def sizes(names: tuple[str, ...], **limits: int) -> list[int]:
        maker = RecordRows("t", 0, names, kernels, **limits)
        return [each.num_rows for each in maker.rows(batches_of(block, kernels), 0, 2**62)]

    assert sizes(("value",)) == [20]
    assert sizes(("value",), rows_max=8) == [8, 8, 4]
    assert sizes(("value",), rows_max=8, row_bytes_max=35) == [3, 3, 3, 3, 3, 3, 2]
    assert sizes(("offset",), rows_max=8, row_bytes_max=35) == [8, 8, 4]
    assert sizes(("value",), rows_max=8, row_bytes_max=5) == [1] * 20


@KERNELS
@pytest.mark.parametrize(
    ("times", "offsets"),
    [
        ((None, None), [0, 1, 2, 3]),
        ((20, None), [1, 2, 3]),
        ((None, 20), [0]),
        ((20, 30), [1, 2]),
        ((21, 29), [2]),
        ((31, 40), []),
    ],
)
def test_a_range_of_times_has_its_first_millisecond_and_not_its_last(
    kernels: Kernels, times: tuple[int | None, int | None], offsets: list[int]
) -> None:
    block = framed(build_batch([Record(timestamp_ms=each) for each in (10, 20, 21, 30)]))
    found = RecordRows("t", 0, ("offset",), kernels, times).rows(batches_of(block, kernels), 0, 2**62)
    assert [row["offset"] for each in found for row in each.to_pylist()] == offsets


@KERNELS
def test_a_time_beyond_microseconds_is_an_error_unless_the_column_is_left_out(kernels: Kernels) -> None:
    block = framed(build_batch([Record(timestamp_ms=5), Record(timestamp_ms=2**60)], base_offset=70))
    with pytest.raises(TimestampNotInRange, match="offset 71 of flights-3"):
        rows_of(block, kernels)
    assert rows_of(block, kernels, ("offset",)) == [{"offset": 70}, {"offset": 71}]


@KERNELS
def test_names_of_headers_that_are_not_utf8_are_read_as_java_does(kernels: Kernels) -> None:
    block = framed(build_batch([Record(headers=(("a\udcff", b"x"),))]))
    assert rows_of(block, kernels, ("headers",)) == [{"headers": [{"key": "a�", "value": b"x"}]}]


def test_the_schema_is_that_of_sparks_connector() -> None:
    fields = {each.name: str(each.type) for each in arrow_schema(ALL_COLUMNS)}
    assert fields == {
        "key": "binary", "value": "binary", "topic": "string", "partition": "int32", "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]", "timestampType": "int32",
        "headers": "list<item: struct<key: string, value: binary>>",
    }  # fmt: skip


def test_another_streams_frame_is_an_error() -> None:
    frame = RecordBatch(STREAM_ID + 1, 1, 0, 1, 1, 0, 0, bytes(build_batch([Record()])))
    raw = (
        FRAME_HEADER.pack(FRAME_MAGIC, 0, frame.stream_id, 1, 0, 1, 1, 0, 0, len(frame.payload))
        + frame.payload
    )
    for kernels in (compiled, plain):
        with pytest.raises(UnreadableBatch, match="stream 6, not 5"):
            batches_of(raw, kernels)
