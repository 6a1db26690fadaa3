"""Any history, several passes with any bounds, room and times: against the plain model, and what readers see."""

from itertools import count
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.batch_header import (
    CODEC_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    checksum_of,
    patch_log_append_time,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome as Ending
from siltstone.kafka_protocol.records.control import (
    TransactionMarker,
    build_control_batch,
    read_control_batch,
)
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.maintenance.key_compaction.task import compact_keys
from siltstone.model.objects import object_key
from siltstone.record_columns.kernels import compiled, plain
from support.kafka.kafka_batches import with_offset_deltas
from support.maintenance import key_compaction_model as model
from support.maintenance.compacted_stream import CompactedStream
from support.values.examples import examples

KEYS = [None, b"", b"a", b"b", b"c", b"d", b"a longer key of some bytes"]
VALUES = [None, b"", b"v", b"value " * 9]
HOUR_MS = 3_600_000
IDEMPOTENT, TRANSACTIONAL = [1, 2], [11, 12, 13]

pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1, max_size=6)
steps = st.one_of(
    st.tuples(st.just("plain"), pairs, st.sampled_from(Codec), st.booleans()),
    st.tuples(
        st.just("disordered"),
        st.lists(st.tuples(pairs.map(lambda found: found[0]), st.integers(-2, 7)), min_size=1, max_size=6),
        st.sampled_from(Codec),
    ),
    st.tuples(st.just("idempotent"), pairs, st.sampled_from(IDEMPOTENT), st.sampled_from(Codec)),
    st.tuples(st.just("transactional"), pairs, st.sampled_from(TRANSACTIONAL)),
    st.tuples(st.just("end"), st.sampled_from(TRANSACTIONAL), st.sampled_from(Ending)),
    st.tuples(st.just("close")),
    st.tuples(st.just("wait"), st.integers(0, 30)),
    st.tuples(st.just("trim"), st.floats(0, 1)),
    st.tuples(
        st.just("compact"), st.floats(0.4, 1), st.sampled_from([2, 3, 4, 7, 1000]), st.integers(40, 400)
    ),
)


class History:
    """One stream in three forms: its objects, its records in the model, and all records that were ever written."""

    def __init__(self) -> None:
        self.stream = CompactedStream(block_bytes=300)
        self.batches: list[model.ModelBatch] = []
        self.written: list[model.ModelBatch] = []
        self.now_ms = 10 * HOUR_MS
        self.sequences: dict[int, int] = {}

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case "plain", found, codec, append_time:
                self._add(found, Codec(codec), append_time=append_time)
            case "disordered", found, codec:
                records = [
                    Record(timestamp_ms=self.now_ms, key=key, value=value) for (key, value), _ in found
                ]
                deltas = [delta for _, delta in found]
                self._append(with_offset_deltas(records, deltas, compression=codec))
            case "idempotent", found, producer, codec:
                self._add(found, codec, producer=producer)
            case "transactional", found, producer:
                self._add(found, Codec.NONE, producer=producer, transactional=True)
            case "end", producer, ending:
                self._end(producer, ending)
            case ("close",):
                self.stream.close_object()
            case "wait", hours:
                self.now_ms += hours * HOUR_MS
            case "trim", part:
                ahead = self.stream.end_offset - self.stream.start_offset
                self.stream.start_offset += int(ahead * part)
            case "compact", part, slots, block_bytes:
                self._compact(part, slots, block_bytes)

    def _add(
        self, found: list[Any], codec: Codec, *, producer: int = -1, transactional: bool = False,
        append_time: bool = False,
    ) -> None:  # fmt: skip
        records = [
            Record(timestamp_ms=self.now_ms + (number * 7) % 5, key=key, value=value, headers=(("h", b"x"),))
            for number, (key, value) in enumerate(found)
        ]
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        batch = build_batch(
            records, producer_id=producer, producer_epoch=min(producer, 0), compression=codec,
            base_sequence=sequence if producer >= 0 else -1, attributes=TRANSACTIONAL_BIT if transactional else 0,
        )  # fmt: skip
        if append_time:
            patch_log_append_time(batch, self.now_ms + 9)
        self._append(batch, transactional=transactional)

    def _end(self, producer: int, ending: Ending) -> None:
        marker = TransactionMarker(ending, coordinator_epoch=1)
        self._append(
            build_control_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=self.now_ms)
        )

    def _append(self, batch: bytearray, *, transactional: bool = False) -> None:
        self.stream.add_batch(batch)
        made = as_model(bytes(self.stream._open[-1].payload))
        assert made.transactional == transactional or made.marker
        self.batches.append(made)
        self.written.append(made)

    def _compact(self, part: float, slots: int, block_bytes: int) -> None:
        if not self.batches:
            return
        stream = self.stream
        stream.block_bytes = block_bytes
        unit = stream.unit(
            self.now_ms, bound=stream.start_offset + int((stream.end_offset - stream.start_offset) * part),
            map_bytes_max=24 * slots, object_bytes=900, producer_expiration_ms=12 * HOUR_MS,
        )  # fmt: skip
        job = model.Pass(
            unit.start_offset, unit.dirty_offset, unit.bound, unit.now_ms, unit.horizon_ms,
            unit.producer_expiration_ms, max(1, int(slots * 0.9)),
        )  # fmt: skip
        expected = model.compact(self.batches, job)
        before = {frame.base_offset: bytes(frame.payload) for frame in stream.frames()}
        result = compact_keys(unit, plain)
        written = [stream.store.get_range(object_key(e.object_id), 0, e.size_bytes) for e in result.objects]
        stream.store.delete([object_key(each.object_id) for each in result.objects])
        again = compact_keys(unit, compiled)
        assert msgspec.structs.replace(again, peak_memory_bytes=result.peak_memory_bytes) == result
        assert [
            stream.store.get_range(object_key(e.object_id), 0, e.size_bytes) for e in result.objects
        ] == written

        assert result.failure is None
        stream.commit(result)
        assert result.cleaned_offset == expected.cleaned
        assert result.null_keys == expected.null_keys
        assert result.is_unchanged == (not expected.changed)
        self.batches = [as_model(bytes(frame.payload)) for frame in stream.frames()]
        assert self.batches == expected.batches
        check_form(stream, before)
        check_readers(self.written, self.batches, stream.start_offset, self.now_ms)


def as_model(payload: bytes) -> model.ModelBatch:
    header = read_batch_header(payload)
    assert checksum_of(payload) == header.crc
    found = [*iterate_records(payload)]
    stated = [record.offset for record in found]
    are_stated = stated == sorted({each for each in stated if header.base_offset <= each < header.end_offset})
    records = [
        model.ModelRecord(
            offset, None if r.key is None else bytes(r.key), None if r.value is None else bytes(r.value),
            r.timestamp_ms,
        )
        for offset, r in zip(stated if are_stated else count(header.base_offset), found, strict=False)
    ]  # fmt: skip
    marker = ""
    if header.is_control:
        marker = read_control_batch(payload).outcome.name if records else "EMPTY"
    return model.ModelBatch(
        header.base_offset, header.end_offset, tuple(records), header.max_timestamp_ms, header.producer_id,
        header.is_transactional and not header.is_control, marker,
        header.base_timestamp_ms if header.has_delete_horizon else None, header.is_log_append_time,
    )  # fmt: skip


def check_form(stream: CompactedStream, before: dict[int, bytes]) -> None:
    """Blocks tile the range; offsets and what a header says of its producer stay; what lost nothing is the same
    bytes."""
    spans = stream.spans()
    ends = [end for _, end in spans]
    assert [start for start, _ in spans[1:]] == ends[:-1]
    assert ends[-1] == stream.end_offset
    assert spans[0][0] <= stream.start_offset
    assert all(source.held.start_offset < source.held.end_offset for source in stream.sources)
    frames = stream.frames()
    assert stream.sources[-1].held.end_offset == frames[-1].end_offset == stream.end_offset
    for frame in frames:
        header, was = read_batch_header(frame.payload), read_batch_header(before[frame.base_offset])
        assert (frame.base_offset, frame.end_offset) == (header.base_offset, header.end_offset)
        assert frame.record_count == header.record_count
        assert unchanging(header) == unchanging(was)
        if header.record_count == was.record_count and header.attributes == was.attributes:
            assert bytes(frame.payload) == before[frame.base_offset]
        if header.record_count and header.codec != was.codec:
            raise AssertionError(f"codec {was.codec} became {header.codec}")
        times = [record.timestamp_ms for record in iterate_records(frame.payload)]
        if times:
            assert frame.smallest_timestamp_ms <= min(times) <= max(times) <= frame.largest_timestamp_ms


def unchanging(header: BatchHeader) -> tuple[int, ...]:
    kept_bits = ~(CODEC_MASK | 0x40)
    return (
        header.base_offset, header.last_offset_delta, header.producer_id, header.producer_epoch,
        header.base_sequence, header.partition_leader_epoch, header.attributes & kept_bits,
    )  # fmt: skip


def check_readers(
    written: list[model.ModelBatch], batches: list[model.ModelBatch], start: int, now_ms: int
) -> None:
    assert model.state(batches, start) == model.state(written, start)
    original = {record.offset: record for batch in written for record in batch.records}
    offsets = [record.offset for batch in batches for record in batch.records]
    assert offsets == sorted(set(offsets))
    assert all(original[r.offset] == r for batch in batches for r in batch.records)


@settings(max_examples=examples(100))
@given(st.lists(steps, min_size=1, max_size=30))
def test_any_history_is_compacted_as_the_rules_say(history: list[tuple[Any, ...]]) -> None:
    stream = History()
    for step in history:
        stream.step(step)
    stream.step(("compact", 1.0, 1000, 300))
    stream.now_ms += 100 * HOUR_MS
    stream.step(("compact", 1.0, 1000, 300))
