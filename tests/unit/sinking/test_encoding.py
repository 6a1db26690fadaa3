"""Rows become record batches of the partitions that Kafka's own clients would choose, as large as the topic allows."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, Codec
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.limits import MIB
from siltstone.sinking.columns import RECORD_OVERHEAD_BYTES
from siltstone.sinking.encoding import KEYLESS_RUN_BYTES, RowEncoder
from siltstone.sinking.failures import RowRefused
from siltstone.sinking.plan import SinkPlan, TopicPlace
from siltstone.value_formats.value_format import AS_JSON, FormatKind, Schema, ValueEncoding

NOW_MS = 1_700_000_000_000


def place(name: str = "t", partitions: int = 3, **given: Any) -> TopicPlace:
    fields = {
        "codec": Codec.NONE,
        "message_bytes_max": MIB,
        "needs_keys": False,
        "has_own_times": True,
        "timestamp_before_max_ms": 2**63 - 1,
        "timestamp_after_max_ms": 3_600_000,
    }
    return TopicPlace(name, f"id-{name}", tuple(range(10, 10 + partitions)), **{**fields, **given})


class Encoding:
    """An encoder, and (topic, partition, records) of each batch that it made."""

    def __init__(
        self,
        *places: TopicPlace,
        topic: str = "t",
        task_number: int = 0,
        encoding: ValueEncoding | None = None,
    ) -> None:
        plan = SinkPlan(1, "store", "memory:sinking", topic, "value binary", places or (place(),), encoding)
        self.batches: list[tuple[str, int, list[Record]]] = []
        self.sizes: list[int] = []
        self.encoder = RowEncoder(plan, task_number, NOW_MS, self._keep)

    def _keep(self, of: TopicPlace, partition: int, data: bytearray, count: int) -> None:
        records = list(iterate_records(data))
        assert len(records) == count
        assert len(data) <= of.message_bytes_max
        self.batches.append((of.name, partition, records))
        self.sizes.append(len(data))

    def add(self, value: bytes | None = b"v", **given: Any) -> None:
        fields = {"key": None, "topic": "t", "partition": None, "headers": (), "timestamp_ms": None, **given}
        self.encoder.add(value=value, **fields)

    def partitions(self) -> list[int]:
        """Returns the partitions of the rows, in their order; each row's value is its number."""
        self.encoder.seal_all()
        where = {
            int(bytes(record.value or b"")[:6]): partition
            for _, partition, records in self.batches
            for record in records
        }
        return [where[number] for number in sorted(where)]

    def counts(self) -> list[int]:
        self.encoder.seal_all()
        return [len(records) for _, _, records in self.batches]


def numbered(number: int, size: int) -> bytes:
    return b"%06d" % number + bytes(size - 6)


def row_bytes(value_bytes: int) -> int:
    return RECORD_OVERHEAD_BYTES + value_bytes


def test_a_partition_column_wins_over_a_key_and_a_key_has_the_partition_of_javas_client() -> None:
    made = Encoding(place(partitions=5))
    # Kafka's UtilsTest gives these keys the hashes -973932308, -790332482 and -985981536.
    for number, key in enumerate((b"21", b"foobar", b"a-little-bit-long-string", b"21")):
        made.add(numbered(number, 6), key=key, partition=4 if number == 3 else None)
    assert made.partitions() == [0, 1, 2, 4]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_the_topic_has_not_is_refused(partition: int) -> None:
    with pytest.raises(
        RowRefused, match=f"row for t .* says partition {partition}, and the topic has 3, from 0 on"
    ):
        Encoding().add(partition=partition)
    Encoding().add(partition=2)


def test_rows_without_keys_fill_one_partition_after_another_from_the_tasks_own_on() -> None:
    half = KEYLESS_RUN_BYTES // 2 - RECORD_OVERHEAD_BYTES
    made = Encoding(place(), task_number=4)
    for number in range(7):
        made.add(numbered(number, half))
        made.add(b"%06d" % (100 + number), key=b"k")
    assert made.partitions()[:7] == [1, 1, 2, 2, 0, 0, 1], "rows with keys do not count"


def test_a_row_without_a_key_that_is_larger_than_a_run_passes_over_no_partition() -> None:
    made = Encoding(place())
    for number in range(3):
        made.add(numbered(number, KEYLESS_RUN_BYTES))
    assert made.partitions() == [0, 1, 2]


def test_each_topic_is_filled_by_itself() -> None:
    made = Encoding(place("a"), place("b"))
    for number in range(4):
        made.add(numbered(number, KEYLESS_RUN_BYTES), topic="ab"[number % 2])
    made.encoder.seal_all()
    assert sorted((topic, partition) for topic, partition, _ in made.batches) == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip


def test_a_batch_takes_rows_up_to_what_the_topic_allows() -> None:
    limit = BATCH_HEADER_BYTES + 2 * row_bytes(100)
    for message_bytes_max, counts in ((limit, [2, 2, 1]), (limit - 1, [1, 1, 1, 1, 1])):
        made = Encoding(place(partitions=1, message_bytes_max=message_bytes_max))
        for number in range(5):
            made.add(numbered(number, 90), key=bytes(10))
        assert made.counts() == counts
        values = [bytes(record.value or b"")[:6] for _, _, records in made.batches for record in records]
        assert values == [b"%06d" % number for number in range(5)], "rows stay in their order"


def test_a_batch_is_at_most_a_mebibyte_however_large_a_message_may_be() -> None:
    made = Encoding(place(partitions=1, message_bytes_max=10 * MIB))
    quarter = MIB // 4 - RECORD_OVERHEAD_BYTES
    for number in range(5):
        made.add(numbered(number, quarter))
    assert made.counts() == [3, 2] and max(made.sizes) <= MIB


def test_headers_count_with_three_bytes_for_each_letter() -> None:
    header = {"key": "nn", "value": bytes(100)}
    limit = BATCH_HEADER_BYTES + 2 * (RECORD_OVERHEAD_BYTES + 2 * 3 + 100 + 10)
    for message_bytes_max, counts in ((limit, [2, 1]), (limit - 1, [1, 1, 1])):
        made = Encoding(place(partitions=1, message_bytes_max=message_bytes_max))
        for _ in range(3):
            made.add(None, key=b"", headers=[header])
        assert made.counts() == counts
    assert made.batches[0][2][0].headers == (("nn", bytes(100)),)


def test_a_batch_that_compression_makes_larger_is_halved_and_a_record_alone_is_refused() -> None:
    values = [Random(number).randbytes(50_000) for number in range(3)]
    estimate = BATCH_HEADER_BYTES + 3 * row_bytes(50_000)
    assert len(build_batch([Record(value=value) for value in values], compression=Codec.GZIP)) > estimate
    made = Encoding(place(partitions=1, codec=Codec.GZIP, message_bytes_max=estimate))
    for value in values:
        made.add(value)
    assert made.counts() == [1, 2]
    assert [bytes(record.value or b"") for _, _, records in made.batches for record in records] == values
    alone = Encoding(place(codec=Codec.GZIP, message_bytes_max=50_000))
    alone.add(values[0])
    with pytest.raises(
        RowRefused, match=r"its record has 50[0-9]{3} bytes, and max\.message\.bytes is 50000"
    ):
        alone.encoder.seal_all()


def test_a_record_that_just_fits_is_written() -> None:
    size = len(build_batch([Record(timestamp_ms=NOW_MS, value=bytes(500))]))
    made = Encoding(place(message_bytes_max=size))
    made.add(bytes(500))
    assert made.counts() == [1] and made.sizes == [size]
    small = Encoding(place(message_bytes_max=size - 1))
    small.add(bytes(500))
    with pytest.raises(RowRefused, match=f"its record has {size} bytes, and max.message.bytes is {size - 1}"):
        small.encoder.seal_all()


def test_open_bytes_are_those_of_rows_that_no_batch_has_yet() -> None:
    made = Encoding(place(partitions=2, message_bytes_max=BATCH_HEADER_BYTES + 2 * row_bytes(100)))
    held = []
    for number in (0, 0, 1, 0):
        made.add(bytes(100), partition=number)
        held.append(made.encoder.open_bytes // row_bytes(100))
    assert held == [1, 2, 3, 2] and made.encoder.open_bytes == 2 * row_bytes(100)
    made.encoder.seal_all()
    assert made.encoder.open_bytes == 0
    assert [(partition, len(records)) for _, partition, records in made.batches] == [(0, 2), (1, 1), (0, 1)]


def test_a_time_must_be_one_that_the_topic_takes_and_no_time_is_now() -> None:
    taken = place(timestamp_before_max_ms=1_000, timestamp_after_max_ms=50)
    made = Encoding(taken)
    times = [NOW_MS - 1_000, NOW_MS + 50, None]
    for timestamp_ms in times:
        made.add(timestamp_ms=timestamp_ms)
    made.encoder.seal_all()
    ((_, _, records),) = made.batches
    assert [record.timestamp_ms for record in records] == [NOW_MS - 1_000, NOW_MS + 50, NOW_MS]
    with pytest.raises(RowRefused, match=r"earlier than message\.timestamp\.before\.max\.ms allows"):
        made.add(timestamp_ms=NOW_MS - 1_001)
    with pytest.raises(RowRefused, match=r"later than message\.timestamp\.after\.max\.ms allows"):
        made.add(timestamp_ms=NOW_MS + 51)
    Encoding(place(has_own_times=False, timestamp_before_max_ms=0)).add(timestamp_ms=0)


def test_a_compacted_topic_takes_no_row_without_a_key() -> None:
    made = Encoding(place(needs_keys=True))
    made.add(key=b"")
    with pytest.raises(RowRefused, match="the topic is compacted, and the row has no key"):
        made.add(key=None)


@pytest.mark.parametrize(
    ("topic", "match"),
    [(None, "column topic is null"), ("", "column topic is null"), ("x", "topic x .* no such topic")],
)
def test_a_row_needs_a_topic_that_is_there(topic: str | None, match: str) -> None:
    with pytest.raises(RowRefused, match=match):
        Encoding().add(topic=topic)


def test_columns_are_cast_and_those_that_are_missing_are_null() -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch(
        {
            "value": pa.array(["ä", None]),
            "topic": [None, "other"],
            "timestamp": pa.array([1_999, None], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "n", "value": None}], None], headers),
        }
    )
    made = Encoding(place(), place("other"))
    made.encoder.add_all(rows)
    made.encoder.seal_all()
    (first, second) = made.batches
    assert (first[0], second[0]) == ("t", "other")
    (one,), (other,) = first[2], second[2]
    assert (one.key, bytes(one.value or b""), one.timestamp_ms) == (None, "ä".encode(), 1)
    assert one.headers == (("n", None),)
    assert (other.value, other.timestamp_ms, other.headers) == (None, NOW_MS, ())


def test_structs_become_avro_in_the_places_of_their_rows() -> None:
    schema = Schema(
        FormatKind.AVRO, '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    )
    encoding = Encoding(encoding=ValueEncoding(schema, 7))
    of_struct = pa.struct([("id", pa.int64())])
    rows = pa.record_batch({"key": pa.array([b"a", b"b"]), "value": pa.array([{"id": -1}, None], of_struct)})
    encoding.encoder.add_all(rows)
    encoding.encoder.seal_all()
    found = [
        (bytes(each.key), each.value and bytes(each.value))
        for _, _, batch in encoding.batches
        for each in batch
    ]
    assert sorted(found) == [(b"a", b"\0\0\0\0\x07\x01"), (b"b", None)]
    wrong = pa.record_batch({"value": pa.array([{"id": None}], of_struct)})
    with pytest.raises(
        RowRefused, match="a row for t cannot be written: its value does not fit the Avro schema"
    ):
        encoding.encoder.add_all(wrong)


def test_structs_become_json_in_the_places_of_their_rows() -> None:
    encoding = Encoding(encoding=AS_JSON)
    of_struct = pa.struct([("id", pa.int64()), ("x", pa.float64())])
    rows = pa.record_batch({"value": pa.array([{"id": -1}, None], of_struct)})
    encoding.encoder.add_all(rows)
    encoding.encoder.seal_all()
    found = [each.value and bytes(each.value) for _, _, batch in encoding.batches for each in batch]
    assert found == [b'{"id":-1,"x":null}', None]
    wrong = pa.record_batch({"value": pa.array([{"x": float("nan")}], of_struct)})
    with pytest.raises(RowRefused, match="a row for t cannot be written: its value has NaN or an infinity"):
        encoding.encoder.add_all(wrong)


# -- rows as columns -----------------------------------------------------------------------------------------------


def both_ways(of: TopicPlace, batches: list[Any]) -> list[list[Any]]:
    """The batches of each partition, in their order; of rows one by one, and of rows as columns."""
    found = []
    for rows_min in (10**9, 1):
        given: dict[int, list[Any]] = {}
        plan = SinkPlan(1, "store", "memory:sinking", "t", "value binary", (of,))

        def keep(_: TopicPlace, partition: int, data: bytearray, count: int, given: Any = given) -> None:
            given.setdefault(partition, []).append((bytes(data), count))

        encoder = RowEncoder(plan, 1, NOW_MS, keep, columns_rows_min=rows_min)
        for number, rows in enumerate(batches):
            is_one_by_one = rows_min == 1 and number % 5 == 4  # a few rows between
            encoder.columns_rows_min = 10**9 if is_one_by_one else rows_min
            encoder.add_all(rows)
        open_bytes = encoder.open_bytes
        encoder.seal_all()
        found.append([sorted(given.items()), open_bytes])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_rows_as_columns_make_the_same_batches(seed: int) -> None:
    rng = Random(seed)
    codec, limit = rng.choice(list(Codec)), rng.choice([700, 3_000, MIB])
    names = ["value", *rng.sample(["key", "partition", "timestamp"], rng.randrange(4))]
    batches = []
    for _ in range(rng.randrange(1, 12)):
        count = rng.choice([0, 1, 7, 60])
        values = [rng.choice([None, rng.randbytes(rng.randrange(200))]) for _ in range(count)]
        keys = [rng.choice([None, b"", b"k%d" % rng.randrange(20), b"l" * 300]) for _ in range(count)]
        columns: dict[str, Any] = {
            "value": pa.array(values, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "partition": pa.array([rng.choice([None, 0, 2]) for _ in range(count)], pa.int32()),
            "timestamp": pa.array(
                [rng.choice([None, (NOW_MS - rng.randrange(10**6)) * 1000 + 7, -1]) for _ in range(count)],
                pa.timestamp("us", tz="UTC"),
            ),
        }  # fmt: skip
        batches.append(pa.record_batch({name: columns[name] for name in names}))
    one_by_one, as_columns = both_ways(place(codec=codec, message_bytes_max=limit), batches)
    assert one_by_one == as_columns


def test_large_rows_and_full_batches_are_cut_alike() -> None:
    values = [bytes(size) for size in (10, 400, 600, 628, 1, 615, 20) * 40]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    one_by_one, as_columns = both_ways(place(message_bytes_max=700, partitions=2), [rows, rows])
    assert one_by_one == as_columns


@pytest.mark.parametrize(("size", "limit"), [(189, 700), (1_000, MIB)])
def test_rows_that_just_fit_are_not_cut_off(size: int, limit: int) -> None:
    """Three of them fill a batch, sixteen a run of rows without keys."""
    rows = pa.record_batch({"value": pa.array([bytes(size)] * 100, pa.binary())})
    one_by_one, as_columns = both_ways(place(message_bytes_max=limit), [rows, rows])
    assert one_by_one == as_columns


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ({"needs_keys": True}, {"key": pa.array([b"k", None], pa.binary())}),
        ({}, {"partition": pa.array([0, 3], pa.int32())}),
        ({}, {"partition": pa.array([-1, 0], pa.int32())}),
        ({}, {"timestamp": pa.array([0, (NOW_MS + 3_600_001) * 1000], pa.timestamp("us", tz="UTC"))}),
        ({"timestamp_before_max_ms": 10}, {"timestamp": pa.array([None, 0], pa.timestamp("us", tz="UTC"))}),
        ({"message_bytes_max": 100}, {"value": pa.array([b"", bytes(200)])}),
    ],
)
def test_what_is_refused_is_refused_as_columns_too(given: Any, columns: Any) -> None:
    encoding = Encoding(place(**given))
    encoding.encoder.columns_rows_min = 1
    with pytest.raises(RowRefused):
        encoding.encoder.add_all(pa.record_batch({"value": pa.array([b"", b""]), **columns}))
        encoding.encoder.seal_all()
    assert not encoding.batches or "message_bytes_max" in given


def test_many_rows_go_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(RowEncoder, "add", never)
    encoding = Encoding(place())
    encoding.encoder.add_all(pa.record_batch({"value": pa.array([b"v"] * 500)}))
    assert sum(encoding.counts()) == 500
    headers = pa.array([None] * 500, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    encoding.encoder.add_all(pa.record_batch({"value": pa.array([b"v"] * 500), "headers": headers}))
    assert sum(encoding.counts()) == 1_000
