"""K1 to K32 of docs/scenarios.md, as far as one pass decides them."""

import hashlib

import pytest

from siltstone.kafka_protocol.batch_header import Codec, checksum_of, patch_log_append_time, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.maintenance.key_compaction.passes.key_map import SLOT_BYTES
from siltstone.record_columns.kernels import compiled, plain
from siltstone.record_columns.kernels.port import Kernels
from siltstone.stream_engine.reading.read_plan import blocks_wanted
from support.engine.objects import index_of
from support.kafka.kafka_batches import with_offset_deltas
from support.maintenance.compacted_stream import DAY_MS, CompactedStream, in_batches, numbered_keys, offsets

ONE_KEY = 2 * SLOT_BYTES
IDLE = {"producer_expiration_ms": 0}
"""Every producer has expired."""


def first_offset_from(stream: CompactedStream, offset: int) -> int:
    """What a fetch at the offset gives first: the read plan's blocks, then the first batch that ends after it."""
    held = [source.held for source in stream.sources]
    indexes = {
        source.object_id: index_of(data)
        for source, data in zip(stream.sources, stream.object_bytes(), strict=True)
    }
    assert blocks_wanted(held, indexes, offset, None, 1)
    return next(pair.offset for pair in stream.records() if pair.offset >= offset)


def test_k1_of_each_key_the_newest_stays() -> None:
    stream = CompactedStream(compiled)
    in_batches(stream, numbered_keys(1024, 10), 32)
    result = stream.compact()
    assert offsets(stream.records()) == [*range(1014, 1024)]
    assert (result.cleaned_offset, result.keys_mapped) == (1024, 10)
    assert (stream.sources[0].held.start_offset, stream.sources[-1].held.end_offset) == (0, 1024)


def test_k2_what_is_beyond_the_bound_is_not_mapped() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(1024, 10), 32)
    stream.add(("k0", "newer"))
    stream.compact(bound=1024)
    assert offsets(stream.records())[6:] == [1020, 1021, 1022, 1023, 1024]


def test_k3_a_fetch_at_a_removed_offset_gives_the_next() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(1024, 10), 32)
    stream.compact()
    assert [first_offset_from(stream, offset) for offset in (0, 500, 1013, 1014)] == [1014] * 4


def test_k4_a_tombstone_stays_for_its_time_limit() -> None:
    stream = CompactedStream()
    for pair in (("a", "1"), ("b", "1"), ("a", None), ("c", "1")):
        stream.add(pair, at_ms=77)
    stream.compact(1_000)
    assert stream.said() == ["1:b=1", "2:a=T", "3:c=1"]
    assert [header.base_timestamp_ms for header in stream.headers() if header.has_delete_horizon] == [
        86_401_000
    ]
    assert [pair.timestamp_ms for pair in stream.records()] == [77, 77, 77]
    assert stream.compact(86_400_999).is_unchanged
    assert stream.said() == ["1:b=1", "2:a=T", "3:c=1"]
    assert stream.compact(86_401_000).tombstones_kept == 0
    assert stream.said() == ["1:b=1", "3:c=1"]


def test_k5_a_time_limit_is_never_set_anew() -> None:
    stream = CompactedStream()
    for pair in (("a", "1"), ("a", None), ("c", "1")):
        stream.add(pair)
    stream.compact(1_000)
    stream.compact(86_401_000, horizon_ms=86_401_000 + 7 * DAY_MS)
    assert stream.said() == ["2:c=1"]


def test_k6_no_time_limit_while_older_values_may_be_left() -> None:
    stream = CompactedStream()
    for pair in (("a", "1"), ("b", "1"), ("a", None), ("z", "1")):
        stream.add(pair)
    result = stream.compact(0, map_bytes_max=ONE_KEY)
    assert (result.is_unchanged, result.map_was_full, result.cleaned_offset) == (True, True, 1)
    assert not any(header.has_delete_horizon for header in stream.headers())
    stream.compact(DAY_MS, map_bytes_max=5 * SLOT_BYTES)
    assert stream.said() == ["1:b=1", "2:a=T", "3:z=1"]
    assert [header.base_timestamp_ms for header in stream.headers()][1] == 2 * DAY_MS


def test_k7_a_value_after_a_tombstone() -> None:
    stream = CompactedStream()
    for pair in (("a", "1"), ("a", None), ("a", "2")):
        stream.add(pair)
    stream.compact()
    assert stream.said() == ["2:a=2"]


def test_k9_more_keys_than_the_map_holds_take_more_passes() -> None:
    stream = CompactedStream(compiled)
    in_batches(stream, numbered_keys(800, 800), 16)
    in_batches(stream, numbered_keys(800, 800), 16)
    first = stream.compact(map_bytes_max=(728 * 10 // 9 + 2) * SLOT_BYTES)
    assert (first.failure, first.map_was_full, first.keys_mapped) == (None, True, 729)
    passes = 1
    while stream.cleaned_offset < 1600:
        before = stream.cleaned_offset
        stream.compact(map_bytes_max=(728 * 10 // 9 + 2) * SLOT_BYTES)
        assert stream.cleaned_offset > before
        passes += 1
    assert passes == 3
    assert offsets(stream.records()) == [*range(800, 1600)]


@pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])
def test_one_key_fits_whatever_the_limit(kernels: object) -> None:
    stream = CompactedStream(kernels)  # type: ignore[arg-type]
    in_batches(stream, [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3"), ("b", "2")], 5)
    bounds = [stream.compact(map_bytes_max=0).cleaned_offset for _ in range(4)]
    assert bounds == [2, 3, 4, 5]
    assert offsets(stream.records()) == [3, 4]


def test_k13_nothing_from_an_open_transaction_on_is_touched() -> None:
    stream = CompactedStream()
    in_batches(stream, [(f"x{number}", "1") for number in range(40)], 8)
    stream.add(("k", "40"))
    in_batches(stream, [(f"y{number}", "1") for number in range(9)], 9)
    assert stream.add_transactional(5, ("t", "50")) == 50
    in_batches(stream, [(f"z{number}", "1") for number in range(9)], 9)
    assert stream.add(("k", "60")) == 60
    in_batches(stream, [("x0", "2")] * 39, 13)
    result = stream.compact(**IDLE)
    assert result.cleaned_offset == 50
    assert offsets(stream.records()) == [*range(100)]


def test_k14_aborted_data_go_at_once_and_their_marker_later() -> None:
    stream = CompactedStream()
    stream.add(("k", "good"))
    stream.add_transactional(5, ("k", "bad"))
    stream.end_transaction(5, Outcome.ABORT)
    stream.add(("z", "1"))
    stream.compact(10, **IDLE)
    assert stream.said() == ["0:k=good", "2:ABORT", "3:z=1"]
    assert not stream.headers()[1].has_delete_horizon
    stream.compact(10, **IDLE)
    assert stream.said() == ["0:k=good", "2:ABORT", "3:z=1"]
    assert stream.headers()[1].base_timestamp_ms == 10 + DAY_MS
    assert [record.timestamp_ms for record in iterate_records(stream.frames()[1].payload)] == [0]
    stream.compact(10 + DAY_MS, **IDLE)
    assert stream.said() == ["0:k=good", "3:z=1"]


def test_a_committed_marker_stays_as_long_as_its_data() -> None:
    stream = CompactedStream()
    stream.add_transactional(5, ("k", "1"))
    stream.end_transaction(5, Outcome.COMMIT)
    stream.add(("z", "1"))
    assert stream.compact(10, **IDLE).is_unchanged
    stream.add(("k", "2"))
    for now_ms in (10, 10, 10 + DAY_MS):
        stream.compact(now_ms, **IDLE)
    assert stream.said() == ["2:z=1", "3:k=2"]


def test_k15_committed_data_in_transactions_shadow_older_data() -> None:
    stream = CompactedStream()
    stream.add(("k", "old"))
    stream.add_transactional(5, ("k", "aborted"))
    stream.add_transactional(6, ("k", "committed"))
    stream.end_transaction(5, Outcome.ABORT)
    stream.end_transaction(6, Outcome.COMMIT)
    stream.compact(10, **IDLE)
    assert stream.said() == ["2:k=committed", "3:ABORT", "4:COMMIT"]


def test_k16_an_emptied_batch_holds_its_marker() -> None:
    stream = CompactedStream()
    stream.add_transactional(5, ("k1", "0"), ("k2", "0"), at_ms=10)
    stream.end_transaction(5, Outcome.ABORT, at_ms=10)
    for _ in range(2):
        stream.compact(10, bound=3)
        assert stream.said() == ["0-1:empty", "2:ABORT"]
    stream.add_transactional(5, ("k1", "1"), at_ms=10)
    stream.end_transaction(5, Outcome.COMMIT, at_ms=10)
    stream.compact(10)
    assert stream.said() == ["2:ABORT", "3:k1=1", "4:COMMIT"]
    assert not any(header.has_delete_horizon for header in stream.headers())
    stream.compact(10)
    assert [header.has_delete_horizon for header in stream.headers()] == [True, False, False]
    stream.compact(10 + DAY_MS, producer_expiration_ms=2 * DAY_MS)
    assert stream.said() == ["3:k1=1", "4:COMMIT"]


def sequenced(stream: CompactedStream, key: str, producer_id: int, sequence: int, at_ms: int = 10) -> None:
    stream.add((key, "1"), at_ms=at_ms, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def k17() -> CompactedStream:
    stream = CompactedStream()
    stream.add(("k0", "1"))
    sequenced(stream, "k0", 1, 0)
    sequenced(stream, "k0", 2, 0)
    sequenced(stream, "k0", 3, 0)
    sequenced(stream, "k1", 2, 1)
    return stream


def test_k17_the_last_sequence_of_each_producer_stays() -> None:
    stream = k17()
    stream.compact(10)
    assert stream.said() == ["1-1:empty", "3:k0=1", "4:k1=1"]
    last = {header.producer_id: header.last_sequence for header in stream.headers()}
    assert last == {1: 0, 2: 1, 3: 0}


def test_k18_but_not_of_one_that_has_expired() -> None:
    stream = k17()
    stream.compact(10 + DAY_MS - 1)
    assert stream.said()[0] == "1-1:empty"
    stream.compact(10 + DAY_MS)
    assert stream.said() == ["3:k0=1", "4:k1=1"]


def test_k19_a_batch_keeps_its_offsets_and_its_sequence() -> None:
    stream = CompactedStream(start_at=100)
    pairs = [("k", "1") for _ in range(10)]
    pairs[4] = ("only", "1")
    stream.add(*pairs, producer_id=9, producer_epoch=1, base_sequence=20)
    stream.add(("k", "2"))
    stream.compact()
    header, frame = stream.headers()[0], stream.frames()[0]
    assert (header.base_offset, header.last_offset_delta, header.base_sequence) == (100, 9, 20)
    assert (header.record_count, header.end_offset, header.partition_leader_epoch) == (1, 110, 3)
    assert header.crc == checksum_of(frame.payload)
    assert (frame.base_offset, frame.end_offset, frame.record_count) == (100, 110, 1)


def test_k20_the_last_batch_stays_emptied() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    stream.add_transactional(5, ("a", "2"))
    stream.end_transaction(5, Outcome.ABORT)
    for now_ms in (10, 10, 10 + DAY_MS, 10 + DAY_MS):
        stream.compact(now_ms, **IDLE)
    assert stream.said() == ["0:a=1", "2-2:empty"]
    assert stream.sources[-1].held.end_offset == 3
    assert stream.headers()[-1].is_control


def test_k21_a_middle_that_is_gone_is_no_hole() -> None:
    stream = CompactedStream(compiled, block_bytes=4096)
    stream.add(("first", "1"))
    in_batches(stream, numbered_keys(20_000, 5), 500)
    stream.add(("last", "1"))
    stream.compact()
    assert offsets(stream.records()) == [0, *range(19_996, 20_002)]
    assert first_offset_from(stream, 1) == 19_996
    assert stream.spans() == [(0, 20_002)]


def test_k22_records_without_a_key_are_removed_and_counted() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), (None, "x"), (None, None))
    stream.add((None, "x"))
    assert stream.compact(bound=3).null_keys == 2
    assert stream.said() == ["0:a=1", "3:-=x"]


def test_k23_a_start_offset_beyond_the_clean_one() -> None:
    stream = CompactedStream()
    in_batches(stream, [("gone", "1"), ("a", "1"), ("b", "1"), ("a", "2"), ("a", "3"), ("c", "1")], 2)
    stream.start_offset = 3
    result = stream.compact()
    assert (result.cleaned_offset, result.keys_mapped) == (6, 2)
    assert stream.said() == ["4:a=3", "5:c=1"]
    assert stream.sources[0].held.start_offset == 3


def test_a_batch_that_the_trim_fell_into_keeps_its_place() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"))
    stream.add(("c", "1"), ("d", "1"), ("e", "1"))
    stream.start_offset = 3
    stream.compact()
    assert stream.said() == ["3:d=1", "4:e=1"]
    assert stream.sources[0].held.start_offset == 2


MD5_TWINS = [
    "d131dd02c5e6eec4693d9a0698aff95c2fcab5{}712467eab4004583eb8fb7f8955ad340609f4b30283e4888325{}1415a085125e8f7cdc99f"
    "d91dbd{}280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2{}487da03fd02396306d248cda0e99f33420f577ee8ce54b67080{}80d1e"
    "c69821bcb6a8839396f965{}b6ff72a70"
]


def test_k25_keys_of_the_same_md5_both_stay() -> None:
    """The pair of Wang and others, 2004. Ours are hashed with a key of the plan's."""
    first, second = (
        bytes.fromhex(MD5_TWINS[0].format(*differing))
        for differing in (("8", "7", "f", "b", "a", "2"), ("0", "f", "7", "3", "2", "a"))
    )
    assert first != second
    assert hashlib.md5(first).digest() == hashlib.md5(second).digest()
    for kernels in (compiled, plain):
        stream = CompactedStream(kernels)
        for key in (first, second):
            stream.add_batch(build_batch([Record(timestamp_ms=0, key=key, value=b"1")]))
        stream.compact()
        assert offsets(stream.records()) == [0, 1]


def test_k26_the_max_timestamp() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"), at_ms=50)
    appended = build_batch([Record(timestamp_ms=5, key=b"c"), Record(timestamp_ms=6, key=b"b", value=b"2")])
    patch_log_append_time(appended, 999)
    stream.add_batch(appended)
    sequenced(stream, "d", 1, 0, at_ms=7)
    stream.add(("d", "2"), ("c", "2"))
    stream.compact()
    assert stream.said() == ["0:a=1", "3:b=2", "4-4:empty", "5:d=2", "6:c=2"]
    assert [header.max_timestamp_ms for header in stream.headers()] == [50, 999, 7, 1]
    assert [frame.largest_timestamp_ms for frame in stream.frames()] == [50, 999, 7, 1]
    assert [pair.timestamp_ms for pair in stream.records()] == [50, 999, 0, 1]


def test_k27_a_batch_that_grows_is_written_and_counted() -> None:
    """As another lz4 would have made it: smaller than ours makes what is left of it."""
    import lz4.frame

    records = [Record(timestamp_ms=0, key=b"%d" % number, value=b"v" * 900) for number in range(200)]
    batch = build_batch([*records, Record(timestamp_ms=0, key=b"z", value=b"1")])
    body = lz4.frame.compress(bytes(batch[61:]), compression_level=12, block_linked=True, block_size=7)
    header = read_batch_header(batch)
    from support.kafka.kafka_batches import with_body

    stream = CompactedStream(compiled)
    squeezed = with_body(batch, body, attributes=header.attributes | Codec.LZ4)
    stream.add_batch(squeezed)
    stream.add(("z", "2"))
    result = stream.compact()
    assert result.batches_grown == 1
    assert offsets(stream.records()) == [*range(200), 201]


@pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])
@pytest.mark.parametrize("deltas", [(0, 0, 0), (2, 1, 0), (0, 5, 2), (0, 5, 8), (-7, 4, 2**31 - 1)])
def test_a_stored_batch_whose_offset_deltas_are_wrong_is_compacted(
    deltas: tuple[int, ...], kernels: Kernels
) -> None:
    """A broker that reads only headers stores what a producer sent. The order in the batch is that of its consumers."""
    stream = CompactedStream(kernels)
    stream.add(("a", "old"), ("b", "old"), ("c", "old"))
    records = [Record(timestamp_ms=0, key=key, value=value) for key, value in
               ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))]  # fmt: skip
    stream.add_batch(with_offset_deltas(records, deltas))
    stream.add(("d", "1"), ("b", None), ("e", "1"), ("f", "1"))
    result = stream.compact()
    assert (result.failure, result.cleaned_offset) == (None, 10)
    assert stream.said() == ["2:c=old", "5:a=2", "6:d=1", "7:b=T", "8:e=1", "9:f=1"]
    assert stream.compact(DAY_MS).failure is None
    assert stream.said() == ["2:c=old", "5:a=2", "6:d=1", "8:e=1", "9:f=1"]


def test_a_batch_whose_deltas_are_wrong_stays_byte_for_byte_while_all_its_records_do() -> None:
    stream = CompactedStream()
    records = [Record(timestamp_ms=0, key=b"k%d" % number, value=b"v") for number in range(3)]
    stream.add_batch(with_offset_deltas(records, (2, 1, 0)))
    stream.add(("a", "1"))
    before = stream.object_bytes()
    assert stream.compact().is_unchanged
    assert stream.object_bytes() == before


def test_k32_no_producer_snapshot_is_asked_for() -> None:
    """Producers are found in the pass itself, also those that came after the bound: nothing can be stale."""
    stream = CompactedStream()
    sequenced(stream, "a", 1, 0)
    stream.add(("a", "2"))
    stream.compact(10)
    assert stream.said() == ["0-0:empty", "1:a=2"]
    sequenced(stream, "b", 1, 1)
    stream.add(("c", "1"))
    stream.compact(10, bound=2)
    assert stream.said() == ["1:a=2", "2:b=1", "3:c=1"]
