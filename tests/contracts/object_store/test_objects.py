"""What every adapter does with objects: put, read, head, list, delete."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest

from siltstone.model.limits import KIB, MIB
from siltstone.object_store.keys import InvalidKey, TooManyKeys
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore, ObjectTruncated

KEY = "a5/objects/00000000000000000001"


def keys_of(store: ObjectStore, prefix: str = "", after: str = "") -> list[str]:
    return [summary.key for summary in store.list(prefix, after)]


def test_many_buffers_come_back_as_one(store: ObjectStore) -> None:
    pieces = [
        bytes([index % 256]) * (index % 50) for index in range(3_000)
    ]  # more than one gathered write takes
    buffers = [memoryview(piece) if index % 2 else bytearray(piece) for index, piece in enumerate(pieces)]

    store.put(KEY, buffers)

    whole = b"".join(pieces)
    assert store.get_range(KEY, 0, len(whole)) == whole


def test_a_large_object_comes_back(store: ObjectStore) -> None:
    block = bytes(range(256)) * 4096
    store.put(KEY, [block, memoryview(block)[1:], block])

    content = store.get_range(KEY, len(block) - 10, 2 * len(block) + 10)

    assert type(content) is bytes
    assert content == block[-10:] + block[1:] + block[:11]


@pytest.mark.parametrize("unit", [1, 64 * KIB])
def test_pieces_come_back_each_in_its_own_memory(store: ObjectStore, unit: int) -> None:
    block = bytes(range(256)) * max(1, unit // 16)
    store.put(KEY, [block])

    pieces = store.get_pieces(KEY, 2 * unit, [3 * unit, 7 * unit, 8 * unit])

    assert pieces == [block[2 * unit : 3 * unit], block[3 * unit : 7 * unit], block[7 * unit : 8 * unit]]
    assert all(type(piece) is bytes for piece in pieces)
    assert store.get_pieces(KEY, unit, [4 * unit]) == [block[unit : 4 * unit]]
    with pytest.raises(ObjectTruncated):
        store.get_pieces(KEY, 0, [unit, len(block) + 1])
    with pytest.raises(ObjectNotFound):
        store.get_pieces("missing", 0, [1, 2])


@pytest.mark.parametrize("size_bytes", [10, 2 * MIB])
def test_buffers_of_signed_bytes_come_back(store: ObjectStore, size_bytes: int) -> None:
    """The buffers of pyarrow are of signed bytes, and the data files of tables are such buffers."""
    block = bytes(range(250)) * (size_bytes // 250 + 1)
    store.put(KEY, [memoryview(block).cast("b"), b"end"])

    assert store.get_range(KEY, 0, len(block) + 3) == block + b"end"


@pytest.mark.parametrize("buffers", [[], [b""], [b"", memoryview(b"")]])
def test_an_empty_object(store: ObjectStore, buffers: list[bytes]) -> None:
    store.put(KEY, buffers)

    assert store.head(KEY).size_bytes == 0
    assert store.get_range(KEY, 0, 0) == b""
    with pytest.raises(ObjectTruncated):
        store.get_range(KEY, 0, 1)


def test_a_second_put_of_the_same_bytes(store: ObjectStore) -> None:
    for _ in range(2):
        store.put(KEY, [b"same", b"bytes"])

    assert store.get_range(KEY, 0, 9) == b"samebytes"
    assert keys_of(store) == [KEY]


@pytest.mark.parametrize("others", [b"other", b"longer than that", b""])
def test_rule_11_a_put_never_replaces_an_object(store: ObjectStore, others: bytes) -> None:
    store.put(KEY, [b"fi", b"rst"])

    with pytest.raises(ObjectAlreadyExists, match="was not replaced"):
        store.put(KEY, [others])

    assert store.get_range(KEY, 0, 5) == b"first"
    assert store.head(KEY).size_bytes == 5


def test_put_if_absent_refuses_and_leaves_what_is_there(store: ObjectStore) -> None:
    store.put_if_absent(KEY, [b"fir", b"st"])

    with pytest.raises(ObjectAlreadyExists):
        store.put_if_absent(KEY, [b"second"])

    assert store.get_range(KEY, 0, 5) == b"first"


def test_of_several_put_if_absent_exactly_one_wins(store: ObjectStore) -> None:
    contenders = 8
    start = Barrier(contenders)

    def contend(number: int) -> bool:
        start.wait()
        try:
            store.put_if_absent(KEY, [b"%d" % number] * 1_000)
        except ObjectAlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(contenders) as pool:
        won = [number for number, wins in enumerate(pool.map(contend, range(contenders))) if wins]

    assert len(won) == 1
    assert store.get_range(KEY, 0, 1_000) == b"%d" % won[0] * 1_000


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 1), (9, 10), (3, 7), (0, 0), (5, 5), (10, 10)])
def test_ranges_at_the_edges(store: ObjectStore, start: int, end: int) -> None:
    store.put(KEY, [b"01234", b"56789"])

    assert store.get_range(KEY, start, end) == b"0123456789"[start:end]


@pytest.mark.parametrize(("start", "end"), [(0, 11), (9, 11), (10, 11), (11, 12), (11, 11), (0, 1 << 40)])
def test_a_range_past_the_end_is_an_error_never_less_bytes(store: ObjectStore, start: int, end: int) -> None:
    store.put(KEY, [b"0123456789"])

    with pytest.raises(ObjectTruncated):
        store.get_range(KEY, start, end)


@pytest.mark.parametrize("key", ["nothing", "a5/objects/2", "a5", "a5/objects", KEY + "/below"])
def test_what_does_not_exist(store: ObjectStore, key: str) -> None:
    store.put(KEY, [b"here"])

    with pytest.raises(ObjectNotFound):
        store.head(key)
    with pytest.raises(ObjectNotFound):
        store.get_range(key, 0, 1)
    with pytest.raises(ObjectNotFound):
        store.get_range(key, 0, 0)


def test_head_tells_size_and_time(store: ObjectStore) -> None:
    before_ms = time.time_ns() // 1_000_000
    store.put(KEY, [b"x" * 12_345])
    summary = store.head(KEY)

    assert (summary.key, summary.size_bytes) == (KEY, 12_345)
    assert before_ms - 2_000 <= summary.modified_ms <= time.time_ns() // 1_000_000 + 2_000  # S3 gives seconds
    (listed,) = store.list()
    assert (listed.key, listed.size_bytes) == (KEY, 12_345)
    assert abs(listed.modified_ms - summary.modified_ms) < 1_000  # MinIO lists ms, and tells seconds


def test_a_listing_is_in_key_order_across_pages(store: ObjectStore, many_keys: int) -> None:
    keys = [f"{index * 37 % 256:02x}/objects/{index:020d}" for index in range(many_keys)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, [key.encode()]), keys))

    assert keys_of(store) == sorted(keys)
    assert {summary.size_bytes for summary in store.list()} == {len(keys[0])}
    assert keys_of(store, prefix="2") == sorted(key for key in keys if key.startswith("2"))
    middle = sorted(keys)[many_keys // 2]
    assert keys_of(store, after=middle) == [key for key in sorted(keys) if key > middle]


@pytest.fixture
def tricky_keys(store: ObjectStore) -> list[str]:
    """Where the order of files in directories is not the order of keys."""
    keys = ["a-b", "a/b", "a/b-c/d", "a/c", "a0", "aa/x", "b", "é/x", "z/y"]
    if store.url.startswith("s3:"):
        keys.remove("a-b")  # SeaweedFS orders by directory and lists it behind a/; S3 itself does not
    for key in keys:
        store.put(key, [b"1"])
    return sorted(keys)


def test_listing_a_prefix(store: ObjectStore, tricky_keys: list[str]) -> None:
    for prefix in ["", "a", "a/", "a/b", "a/b-", "a/b-c/", "aa", "b", "c", "a/b-c/d", "é", "zz"]:
        assert keys_of(store, prefix) == [key for key in tricky_keys if key.startswith(prefix)], prefix


def test_listing_after_a_key(store: ObjectStore, tricky_keys: list[str]) -> None:
    others = (
        [] if store.url.startswith("s3:") else ["a", "a-b", "a/", "é", "zz"]
    )  # SeaweedFS wants a key listed
    for after, prefix in product([*tricky_keys, "a/zzz", *others], ["", "a", "a/"]):
        expected = [key for key in tricky_keys if key.startswith(prefix) and key > after]
        assert keys_of(store, prefix, after) == expected, (prefix, after)


def test_an_empty_bucket_lists_nothing(store: ObjectStore) -> None:
    assert keys_of(store) == keys_of(store, "any/") == []


def test_delete_takes_keys_that_do_not_exist_as_done(store: ObjectStore) -> None:
    for key in ("a/1", "a/2", "b/1"):
        store.put(key, [b"1"])

    store.delete(["a/1", "a/3", "nowhere/1", "a/1/below", "b/1"])
    store.delete(["a/1"])
    store.delete([])

    assert keys_of(store) == ["a/2"]


def test_delete_takes_a_thousand_keys_and_no_more(store: ObjectStore) -> None:
    store.put("k/0007", [b"1"])
    keys = [f"k/{index:04d}" for index in range(1_001)]

    with pytest.raises(TooManyKeys):
        store.delete(keys)
    assert keys_of(store) == ["k/0007"]

    store.delete(keys[:1_000])
    assert keys_of(store) == []


REFUSED = [
    "", "/", "/etc/passwd", "a//b", "a/", "../a", "a/../../b", "a/..", "..", ".", "./a", "a/./b", ".uploads/a",
    "a/.temporary", "a\\b", "a\0b", "a\nb", "\udcff", "a/" + "x" * 256, "x/" * 600 + "x",
]  # fmt: skip


def test_keys_that_are_refused(store: ObjectStore) -> None:
    upload = store.start_multipart("a/upload")
    calls: dict[str, Callable[[str], object]] = {
        "put": lambda key: store.put(key, [b"1"]),
        "put_if_absent": lambda key: store.put_if_absent(key, [b"1"]),
        "get_range": lambda key: store.get_range(key, 0, 1),
        "head": store.head,
        "delete": lambda key: store.delete([key]),
        "start_multipart": store.start_multipart,
        "copy_part": lambda key: store.copy_part(upload, 1, 0, key, 0, 1),
    }
    accepted = [(name, key) for name, key in product(calls, REFUSED) if not refuses(calls[name], key)]
    store.abort_multipart(upload)

    assert accepted == []


def refuses(call: Callable[[str], object], key: str) -> bool:
    try:
        call(key)
    except InvalidKey:
        return True
    return False
