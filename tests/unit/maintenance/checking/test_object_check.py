import tracemalloc

import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.checking.object_check import ObjectCheck, check_object
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.limits import TAIL_READ_BYTES
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from siltstone.model.record_batch import BlockEntry, RecordBatch
from siltstone.object_formats.object_layout import ranges_of_entries, trailer_bytes
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.clock import ManualClock
from support.engine.batches import batch, build_object, frames
from support.engine.objects import index_of
from support.maintenance.maintained_store import WatchedStore
from support.values.left_out import numbers_left_out

DAMAGED, CONTRADICTS = FindingKind.OBJECT_DAMAGED, FindingKind.INDEX_CONTRADICTS_IMAGE
ID = 7
KEY = object_key(ID)


def put(content: bytes) -> WatchedStore:
    store = WatchedStore(ManualClock())
    store.put(KEY, [content])
    return store


def metadata_of(size_bytes: int, ranges: tuple[ObjectRange, ...]) -> ObjectMetadata:
    return ObjectMetadata(
        ID, ObjectState.COMMITTED, 0, ObjectKind.STREAM_SET_OBJECT, size_bytes, 0, 1, 0, 1, ranges
    )


def made(batches: list[RecordBatch] | None = None, block_bytes: int = 200) -> tuple[bytes, ObjectMetadata]:
    """Three streams of four batches of ten records, two to a block."""
    if batches is None:
        batches = [batch(stream, 10 * n, 10, 60) for stream in (1, 2, 5) for n in range(4)]
    built = build_object(batches, block_bytes)
    content = b"".join(built.buffers)
    return content, metadata_of(built.size_bytes, ranges_of_entries(built.entries, ID))


def checked(content: bytes, metadata: ObjectMetadata, *, read_blocks: bool = True) -> ObjectCheck:
    return check_object(put(content), metadata, read_blocks=read_blocks)


def one(check: ObjectCheck) -> Finding:
    (finding,) = check.findings
    assert (finding.object_id, finding.key) == (ID, KEY)
    assert finding.text.startswith(f"object {ID} ") and "\n" not in finding.text
    return finding


def flipped(content: bytes, position: int) -> bytes:
    raw = bytearray(content)
    raw[position] ^= 0x10
    return bytes(raw)


def resealed(content: bytes, entries: list[BlockEntry]) -> bytes:
    """The same blocks under another index, with every checksum right."""
    data_bytes = index_of(content)[len(index_of(content)) - 1].end_position
    return content[:data_bytes] + trailer_bytes(entries, data_bytes)


def replaced(entry: BlockEntry, **changes: int) -> BlockEntry:
    return BlockEntry(**{name: changes.get(name, getattr(entry, name)) for name in entry.__struct_fields__})


# -- as it was written ------------------------------------------------------------------------------------


def test_a_whole_object() -> None:
    content, metadata = made()
    index = index_of(content)
    data_bytes = index[len(index) - 1].end_position
    assert checked(content, metadata) == ObjectCheck((), len(index), data_bytes)
    assert len(index) == 6


def test_only_the_index_is_read_when_blocks_are_not_wanted() -> None:
    content, metadata = made([batch(1, n, 1, 1_000) for n in range(200)])
    store = put(content)
    assert check_object(store, metadata, read_blocks=False) == ObjectCheck((), 0, 0)
    assert store.counts == {"head": 1, "get_range": 1}
    ((_, start, end),) = store.details("get_range")
    assert (start, end) == (len(content) - TAIL_READ_BYTES, len(content))


def test_a_large_index_takes_one_read_more() -> None:
    content, metadata = made([batch(1, n, 1, 1) for n in range(1_000)], block_bytes=1)
    store = put(content)
    assert check_object(store, metadata, read_blocks=False).findings == ()
    assert store.counts == {"head": 1, "get_range": 2}


def test_the_index_may_hold_more_than_the_image_names() -> None:
    """What was dead when the object was committed; its blocks are read as well."""
    content, metadata = made()
    for ranges in (metadata.ranges[1:], metadata.ranges[:1], ()):
        check = checked(content, metadata_of(len(content), ranges))
        assert (check.findings, check.blocks_checked) == ((), 6)


def test_compacted_keys_leave_offsets_without_records() -> None:
    """Inside a batch, and between batches of one block (rule: offsets never change)."""
    sparse = [batch(1, 0, 2, 60, offsets=9), batch(1, 20, 1, 60, offsets=5)]
    data = frames(sparse)
    content, _ = made(sparse, block_bytes=1)
    first, second = index_of(content)
    joined = replaced(first, end_offset=30, record_count=3, size_bytes=len(data), crc32c=crc32c([data]))
    assert second.start_offset == 20
    content = data + trailer_bytes([joined], len(data))
    metadata = metadata_of(len(content), ranges_of_entries([joined], ID))
    assert checked(content, metadata).findings == ()


# -- damaged ----------------------------------------------------------------------------------------------


def test_a_flip_in_a_block_is_found_with_the_block_and_only_when_blocks_are_read() -> None:
    content, metadata = made()
    entry = index_of(content)[3]
    damaged = flipped(content, entry.position + 75)
    finding = one(checked(damaged, metadata))
    assert (finding.kind, finding.stream_id) == (DAMAGED, 2)
    assert "stream 2 [20, 40), is damaged: its checksum does not match" in finding.text
    assert checked(damaged, metadata, read_blocks=False).findings == ()


def test_damage_in_one_block_does_not_hide_the_others() -> None:
    content, metadata = made()
    entries = list(index_of(content))
    for at in (0, 2, 5):
        content = flipped(content, entries[at].end_position - 1)
    check = checked(content, metadata)
    assert [(each.kind, each.stream_id) for each in check.findings] == [
        (DAMAGED, 1),
        (DAMAGED, 2),
        (DAMAGED, 5),
    ]
    assert check.blocks_checked == 6


@pytest.mark.parametrize("read_blocks", [True, False])
def test_every_flip_in_index_and_footer_is_found(read_blocks: bool) -> None:
    content, metadata = made()
    data_bytes = len(content) - 6 * 72 - 64
    for position in range(data_bytes, len(content)):
        finding = one(checked(flipped(content, position), metadata, read_blocks=read_blocks))
        assert finding.kind is DAMAGED, position
        assert KEY in finding.text


@pytest.mark.parametrize("read_blocks", [True, False])
@pytest.mark.parametrize("lost", [1, 63, 64, 65, 500])
def test_a_truncated_object(lost: int, read_blocks: bool) -> None:
    content, metadata = made()
    finding = one(checked(content[:-lost], metadata, read_blocks=read_blocks))
    assert finding.kind is DAMAGED
    assert f"has {len(content) - lost} bytes, was committed with {len(content)}" in finding.text


@pytest.mark.parametrize(
    "content_of", [lambda whole: b"", lambda whole: whole + b"!", lambda whole: b"!" + whole]
)
def test_an_object_of_another_length(content_of) -> None:
    content, metadata = made()
    assert one(checked(content_of(content), metadata)).kind is DAMAGED


def test_bytes_lost_and_the_length_kept() -> None:
    content, metadata = made()
    for other in (bytes(len(content)), content[1:] + b"\0", b"\0" + content[:-1]):
        assert one(checked(other, metadata, read_blocks=False)).kind is DAMAGED


def test_a_missing_object() -> None:
    _, metadata = made()
    finding = one(check_object(WatchedStore(ManualClock()), metadata, read_blocks=True))
    assert (finding.kind, finding.text) == (FindingKind.OBJECT_MISSING, f"object {ID} is not in its bucket")


@pytest.mark.parametrize("call", ["head", "get_range"])
@pytest.mark.parametrize("trouble", [StoreTransient("no route"), StoreDenied("no permission")])
def test_a_store_that_does_not_answer(trouble: Exception, call: str) -> None:
    content, metadata = made()
    store = put(content)

    def fail(name: str, key: str) -> None:
        if name == call:
            raise trouble

    store.before = fail
    finding = one(check_object(store, metadata, read_blocks=True))
    assert finding.kind is FindingKind.STORE_UNREACHABLE
    assert finding.text.endswith(str(trouble))


# -- whole, but not what the image says --------------------------------------------------------------------


def contradictions(content: bytes, metadata: ObjectMetadata) -> list[tuple[int | None, str]]:
    assert {each.kind for each in checked(content, metadata, read_blocks=False).findings} <= {CONTRADICTS}
    return [
        (each.stream_id, each.text.partition("hold ")[2]) for each in checked(content, metadata).findings
        if each.kind is CONTRADICTS
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (slice(0, 2), [(1, "[0, 40) of stream 1")]),
        (slice(0, 1), [(1, "[0, 40) of stream 1")]),
        (slice(3, 4), [(2, "[0, 40) of stream 2")]),
        (slice(1, 6), [(each, f"[0, 40) of stream {each}") for each in (1, 2, 5)]),
    ],
)
def test_an_index_that_lacks_blocks(left_out: slice, expected: list[tuple[int, str]]) -> None:
    content, metadata = made()
    entries = list(index_of(content))
    del entries[left_out]
    content = resealed(content, entries)
    metadata = metadata_of(len(content), metadata.ranges)
    assert contradictions(content, metadata) == expected


def test_a_gap_between_blocks_is_a_contradiction_unless_the_image_says_so() -> None:
    content, metadata = made([batch(1, 10 * n, 10, 100) for n in range(4)], block_bytes=1)
    entries = list(index_of(content))
    del entries[1]
    content = resealed(content, entries)
    assert contradictions(content, metadata_of(len(content), metadata.ranges)) == [(1, "[0, 40) of stream 1")]
    assert contradictions(content, metadata_of(len(content), ranges_of_entries(entries, ID))) == []
    whole_size = ObjectRange(1, ID, 0, 40, sum(entry.size_bytes for entry in entries), 1_000)
    assert contradictions(content, metadata_of(len(content), (whole_size,))) == [(1, "[0, 40) of stream 1")]


@pytest.mark.parametrize(
    "change",
    [
        {"start_offset": 1},
        {"end_offset": 39},
        {"end_offset": 41},
        {"start_offset": 20},
        {"size_bytes": 1},
        {"stream_id": 2},
    ],
)
def test_a_range_that_is_not_the_indexs(change: dict[str, int]) -> None:
    content, metadata = made([batch(1, 10 * n, 10, 60) for n in range(4)])
    (held,) = metadata.ranges
    fields = {name: change.get(name, getattr(held, name)) for name in held.__struct_fields__}
    other = metadata_of(len(content), (ObjectRange(**fields),))
    assert [stream for stream, _ in contradictions(content, other)] == [fields["stream_id"]]


def test_contradictions_do_not_hide_damage() -> None:
    content, metadata = made()
    (held, *rest) = metadata.ranges
    wrong = ObjectRange(held.stream_id, ID, 0, 39, held.size_bytes, held.largest_timestamp_ms)
    check = checked(flipped(content, 3), metadata_of(len(content), (wrong, *rest)))
    assert [each.kind for each in check.findings] == [CONTRADICTS, DAMAGED]


def with_block(data: bytes, **entry_fields: int) -> ObjectCheck:
    """An object of one block whose checksum and index are right, whatever its frames say."""
    (entry,) = index_of(b"".join(build_object([batch(1, 0, 10, 60)]).buffers))
    entry = replaced(entry, size_bytes=len(data), crc32c=crc32c([data]), **entry_fields)
    content = data + trailer_bytes([entry], len(data))
    return checked(content, metadata_of(len(content), ranges_of_entries([entry], ID)))


@pytest.mark.parametrize(
    ("data", "fields", "expected"),
    [
        (frames([batch(2, 0, 10)]), {}, "holds a batch that is not its own at 0"),
        (frames([batch(1, 10, 10)]), {}, "holds 10 records up to 20"),
        (frames([batch(1, 0, 10)]), {"start_offset": 5, "end_offset": 15}, "not its own at 0"),
        (frames([batch(1, 0, 9)]), {}, "holds 9 records up to 9"),
        (frames([batch(1, 0, 10), batch(1, 10, 1)]), {}, "holds 11 records up to 11"),
        (frames([batch(1, 0, 6), batch(1, 5, 4)]), {}, "not its own at 5"),
        (frames([batch(1, 0, 10)])[:-1], {}, "truncated payload"),
        (frames([batch(1, 0, 10)]) + b"\0" * 9, {}, "truncated frame header"),
        (b"no frames at all" * 10, {}, "no batch frame at 0"),
    ],
)
def test_a_block_of_other_batches_than_its_entry_says(
    data: bytes, fields: dict[str, int], expected: str
) -> None:
    """A writer's bug: the checksums are right, the content is not."""
    finding = one(with_block(data, **fields))
    assert (finding.kind, finding.stream_id) == (DAMAGED, 1)
    assert expected in finding.text


def test_an_index_that_points_behind_the_end_of_the_object() -> None:
    data = frames([batch(1, 0, 10, 60)])
    (entry,) = index_of(b"".join(build_object([batch(1, 0, 10, 60)]).buffers))
    far = replaced(entry, position=1_000_000)
    content = data + trailer_bytes([far], len(data))
    finding = one(checked(content, metadata_of(len(content), ranges_of_entries([far], ID))))
    assert finding.kind is DAMAGED


# -- reads ------------------------------------------------------------------------------------------------


def block_reads(store: WatchedStore) -> list[tuple[int, int]]:
    """Without the first, which fetches the index."""
    return [(start, end) for _, start, end in store.details("get_range")][1:]


def test_adjacent_blocks_are_read_together_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    content, metadata = made([batch(1, n, 1, 928) for n in range(20)], block_bytes=1)
    for limit, expected in (
        (20_000, [(0, 20_000)]),
        (19_999, [(0, 19_000), (19_000, 20_000)]),
        (4_000, [(at, at + 4_000) for at in range(0, 20_000, 4_000)]),
        (1_999, [(at, at + 1_000) for at in range(0, 20_000, 1_000)]),
        (10, [(at, at + 1_000) for at in range(0, 20_000, 1_000)]),
    ):
        store = put(content)
        checked = check_object(store, metadata, read_blocks=True, request_bytes_max=limit)
        assert checked == ObjectCheck((), 20, 20_000)
        assert block_reads(store) == expected


def test_blocks_are_read_in_the_order_of_the_bytes_and_gaps_are_left_out() -> None:
    """Parts of an object written by several tasks need not lie in index order."""
    first, second, third = (frames([batch(stream, 0, 1, 100)]) for stream in (1, 2, 3))
    content, _ = made([batch(stream, 0, 1, 100) for stream in (1, 2, 3)])
    entries = list(index_of(content))
    size = len(first)
    data = second + b"unused" + third + first
    places = (size + 6 + size, 0, size + 6)
    entries = [replaced(entry, position=at) for entry, at in zip(entries, places, strict=True)]
    content = data + trailer_bytes(entries, len(data))
    store = put(content)
    metadata = metadata_of(len(content), ranges_of_entries(entries, ID))
    assert check_object(store, metadata, read_blocks=True) == ObjectCheck((), 3, 3 * size)
    assert block_reads(store) == [(0, size), (size + 6, size + 6 + 2 * size)]


def test_rule_9_one_read_is_held_at_a_time() -> None:
    limit = 1 << 20
    content, metadata = made([batch(1, n, 1, limit // 4 - 72) for n in range(32)], block_bytes=1)
    store = put(content)
    tracemalloc.start()
    try:
        checked = check_object(store, metadata, read_blocks=True, request_bytes_max=limit)
        assert checked.findings == ()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(block_reads(store)) == 8
    assert peak < 1.5 * limit


def test_a_large_object_is_read_in_requests_of_16_mib() -> None:
    mib = 1 << 20
    content, metadata = made([batch(1, n, 1, 3 * mib) for n in range(13)], block_bytes=1)
    store = put(content)
    assert check_object(store, metadata, read_blocks=True).findings == ()
    sizes = [end - start for start, end in block_reads(store)]
    assert len(sizes) == 3 and max(sizes) <= 16 * mib and sum(sizes) == 13 * (3 * mib + 72)


def test_what_is_left_out() -> None:
    assert numbers_left_out(ObjectCheck) == {"blocks_checked": 0, "bytes_read": 0}
