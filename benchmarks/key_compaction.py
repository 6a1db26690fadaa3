"""(i) Key compaction on a warm local Spark: ten million records of a hundred bytes, two million keys, in ten streams,
a task each; against plain PySpark that keeps the same records (``max_by`` over columns that were decoded before), and
against Apache Kafka's log cleaner on as many records of the same size.

What is measured of ours is the tasks: reading twice, decoding, map, filter, rewriting with checksums, writing. PySpark
is given Parquet with keys, values and offsets, and writes Parquet, so it neither decodes nor encodes record batches.
Spark's start is counted nowhere; one round of each is not counted at all.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from benchmarks import kafka_cleaner
from benchmarks.kafka_cleaner import PARTITIONS
from benchmarks.support.idle_task import idle_task
from benchmarks.support.pairs import Pair, timed
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.kafka_protocol.batch_header import BatchHeader, Codec
from siltstone.kafka_protocol.records.building import seal_batch
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.maintenance.key_compaction.task_input import (
    CODEC,
    KeyCompactionInput,
    KeyCompactionResult,
    SourceObject,
)
from siltstone.model.limits import BLOCK_SIZE_BYTES, DAY_MS, GIB, MIB, READ_REQUEST_BYTES_MAX
from siltstone.model.objects import object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.object_layout import ObjectBuilder, ranges_of_entries
from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectStore
from siltstone.spark.spark_runner import SparkRunner, open_runner
from siltstone.spark.starting import active_context

RECORDS = 10_000_000
KEYS = 2_000_000
BATCH_RECORDS = 1_000
OBJECT_BATCHES = 500
KEY_BYTES, VALUE_BYTES = 12, 80
ROUNDS = 5
MAP_BYTES = 128 * MIB
NOW_MS = 1_700_000_000_000
TITLE = "(i) key compaction on Spark, local[*], warm"

Digits = npt.NDArray[np.uint8]
Cleaner = Callable[[Path, int, int, str], kafka_cleaner.Cleaned]


def run(records: int = RECORDS, keys: int = KEYS, cleaner: Cleaner | None = kafka_cleaner.clean) -> list[Row]:
    runner = open_runner()
    try:
        (idle,) = runner.run(idle_task, [b""])
        return [
            row
            for codec in (Codec.NONE, Codec.LZ4)
            for row in _rows(runner, records, keys, codec, float(idle), cleaner)
        ]
    finally:
        runner.close()


def _rows(
    runner: SparkRunner, records: int, keys: int, codec: Codec, idle_mib: float, cleaner: Cleaner | None
) -> list[Row]:
    with folder() as place:
        inputs = [_input(place, stream, records, keys, codec) for stream in range(PARTITIONS)]
        _write_parquet(place / "parquet", records, keys)
        pair, results = _measured(runner, inputs, place)
    kept = sum(result.records_kept for result in results)
    assert kept == keys, f"{kept} records are kept of {keys} keys"
    ours, theirs = (records / timing.wall_s / 1e6 for timing in (pair.our_median(), pair.their_median()))
    name = "uncompressed" if codec is Codec.NONE else codec.name.lower()
    against = f"PySpark, max_by, {theirs:.2f} M/s"
    peak_mib = max(result.peak_memory_bytes for result in results) / MIB
    speed = f"million records a second, {name}"
    return [
        at_least(speed, ours, 5, " M/s", against) if codec is Codec.NONE else Row(speed, f"{ours:.2f} M/s", against),
        at_least(f"against PySpark, {name}", pair.speed_ratio, 1, "×"),
        at_most(f"peak memory that a task adds, {name}", peak_mib - idle_mib, 512, " MiB", f"idle {idle_mib:.0f} MiB"),
        *_against_cleaner(records, keys, name, ours, cleaner),
    ]  # fmt: skip


def _measured(
    runner: SparkRunner, inputs: list[KeyCompactionInput], place: Path
) -> tuple[Pair, list[KeyCompactionResult]]:
    pair, results = Pair([], []), [KeyCompactionResult(name="")]

    def compact(encoded: list[bytes]) -> None:
        results[:] = [CODEC.decode_result(each) for each in runner.run(run_key_compaction, encoded)]
        assert not any(result.failure for result in results), results

    for number in range(ROUNDS + 1):
        # Every round writes objects of its own, as every run does: a put of an object that exists reads it to compare.
        round_inputs = [replace(each, first_object_id=each.first_object_id + 100 * number) for each in inputs]
        encoded = [CODEC.encode_input(each) for each in round_inputs]
        our = timed(lambda encoded=encoded: compact(encoded))
        their = timed(lambda number=number: _max_by(place / "parquet", place / f"by-pyspark-{number}"))
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    return pair, results


def _against_cleaner(records: int, keys: int, codec: str, ours: float, cleaner: Cleaner | None) -> list[Row]:
    """Returns millions of records a second; None where there is no Apache Kafka."""
    if cleaner is None:
        return []
    measure = f"against Apache Kafka's log cleaner, {codec}"
    try:
        with folder() as place:
            cleaned = cleaner(place, records, keys, "none" if codec == "uncompressed" else codec)
    except JavaArtifactsUnavailable as missing:
        return [Row(measure, "not measured", str(missing))]
    theirs = cleaned.records_per_second / 1e6
    return [at_least(measure, ours / theirs, 1, "×", f"{theirs:.2f} M/s")]


# -- PySpark -------------------------------------------------------------------------------------------------


def _write_parquet(place: Path, records: int, keys: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place.mkdir()
    for stream in range(PARTITIONS):
        count = records // PARTITIONS
        key = _digits(_keys_of(stream, 0, count, keys), KEY_BYTES)
        value = _digits(np.arange(count), VALUE_BYTES)
        table = pa.table({
            "stream": pa.array(np.full(count, stream)),
            "offset": pa.array(np.arange(count)),
            "key": pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY_BYTES), count, [None, pa.py_buffer(key)]),
            "value": pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), count, [None, pa.py_buffer(value)]),
        })  # fmt: skip
        pq.write_table(table, place / f"{stream}.parquet", compression="none")


def _max_by(source: Path, target: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    context: Any = active_context()
    records = SparkSession(context).read.parquet(str(source))
    newest = records.groupBy("stream", "key").agg(
        f.max("offset").alias("offset"), f.max_by("value", "offset")
    )
    newest.sortWithinPartitions("stream", "offset").write.parquet(str(target))


# -- data ----------------------------------------------------------------------------------------------------


def _input(place: Path, stream: int, records: int, keys: int, codec: Codec) -> KeyCompactionInput:
    url = (place / "bucket").absolute().as_uri()
    sources = _sources(open_store(url, create=True), stream, records // PARTITIONS, keys, codec)
    end_offset = sources[-1].held.end_offset
    return KeyCompactionInput(
        name=f"stream {stream}", stream_id=stream, sources=tuple(sources), start_offset=0, dirty_offset=0,
        bound=end_offset, now_ms=NOW_MS, horizon_ms=NOW_MS + DAY_MS, producer_expiration_ms=DAY_MS,
        map_bytes_max=MAP_BYTES, memory_bytes=GIB, read_request_bytes_max=READ_REQUEST_BYTES_MAX,
        block_bytes=BLOCK_SIZE_BYTES, object_bytes=64 * MIB, first_object_id=1_000_000 * (stream + 1),
        object_count_max=100, output_bucket_id=0, bucket_urls={0: url}, hash_key=bytes(range(16)),
    )  # fmt: skip


def _sources(store: ObjectStore, stream: int, records: int, keys: int, codec: Codec) -> list[SourceObject]:
    sources: list[SourceObject] = []
    step = OBJECT_BATCHES * BATCH_RECORDS
    for first in range(0, records, step):
        builder = ObjectBuilder()
        for base in range(first, min(first + step, records), BATCH_RECORDS):
            count = min(BATCH_RECORDS, records - base)
            payload = _batch(base, count, _keys_of(stream, base, count, keys), codec)
            batch = RecordBatch(stream, 1, base, base + count, count, NOW_MS, NOW_MS, payload)
            builder.append(batch, encode_frame_header(batch))
        made = builder.finish()
        object_id = stream * 1_000 + len(sources) + 1
        store.put(object_key(object_id), made.buffers)
        (held,) = ranges_of_entries(made.entries, object_id)
        sources.append(SourceObject(object_id, 0, made.size_bytes, held))
    return sources


def _keys_of(stream: int, first: int, count: int, keys: int) -> npt.NDArray[np.int64]:
    """Returns the key of a record as ``kafka_cleaner.key_of`` does: every tenth of all records is in this stream."""
    numbers = np.arange(first, first + count, dtype=np.int64) * PARTITIONS + stream
    spread: npt.NDArray[np.int64] = numbers * 7_919 % keys // PARTITIONS * PARTITIONS + stream
    return spread


def _digits(numbers: npt.NDArray[np.int64], width: int) -> Digits:
    """Returns each number in decimal, padded with zeros, as a row of bytes."""
    digits = np.full((len(numbers), width), ord("0"), dtype=np.uint8)
    left = numbers.copy()
    for place in range(1, min(width, 19) + 1):
        digits[:, -place] += (left % 10).astype(np.uint8)
        left //= 10
    return digits


def _batch(base: int, count: int, keys: npt.NDArray[np.int64], codec: Codec) -> bytearray:
    """Builds all records at once: first those whose offset delta takes one byte, then those where it takes two."""
    key, value = _digits(keys, KEY_BYTES), _digits(np.arange(base, base + count), VALUE_BYTES)
    short = min(count, 64)
    body = _records(np.arange(short), key[:short], value[:short], 1)
    if count > short:
        body += _records(np.arange(short, count), key[short:], value[short:], 2)
    header = BatchHeader(base, 0, 1, 2, 0, int(codec), count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    return seal_batch(header, body, count)


def _records(deltas: npt.NDArray[np.int64], keys: Digits, values: Digits, delta_bytes: int) -> bytes:
    body_bytes = 1 + 1 + delta_bytes + 1 + KEY_BYTES + 2 + VALUE_BYTES + 1
    raw = np.zeros((len(deltas), 2 + body_bytes), dtype=np.uint8)
    raw[:, 0:2] = _two_bytes(body_bytes)
    delta = (
        np.stack([2 * deltas & 0x7F | 0x80, 2 * deltas >> 7], axis=1)
        if delta_bytes == 2
        else 2 * deltas[:, None]
    )
    at = 4 + delta_bytes
    raw[:, 4:at] = delta
    raw[:, at] = 2 * KEY_BYTES
    raw[:, at + 1 : at + 1 + KEY_BYTES] = keys
    at += 1 + KEY_BYTES
    raw[:, at : at + 2] = _two_bytes(VALUE_BYTES)
    raw[:, at + 2 : at + 2 + VALUE_BYTES] = values
    return raw.tobytes()


def _two_bytes(length: int) -> tuple[int, int]:
    """Returns a length of 64 to 8191, as a varint."""
    return 2 * length & 0x7F | 0x80, 2 * length >> 7
