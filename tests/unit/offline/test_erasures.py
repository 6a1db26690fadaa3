"""Requests to erase keys, as the metadata keeps them."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import PutKey
from siltstone.offline.erasures import (
    ErasedKey,
    ErasedObject,
    ErasedRows,
    Erasure,
    ErasureVerification,
    TooManyErasures,
    UnreadableErasure,
    applied_again,
    decode_erasure,
    encode_erasure,
    erased_objects,
    erased_rows,
    erasure_id_of_key,
    erasure_of,
    erasures_of,
    erasures_of_streams,
    has_pending,
    is_deletion_due,
    is_open,
    is_table_pending,
    keys_of,
    list_key,
    put_erased_object,
    put_erased_rows,
    put_erasure,
)

TOPIC = "a" * 32
ONE = Erasure(
    erasure_id="00ff00ff00ff",
    topic_id=TOPIC,
    topic="t",
    hash_key=bytes(range(16)),
    salt=bytes(16),
    keys=(ErasedKey(b"h" * 16, b"d" * 32),),
    bounds=(7, 0),
    requested_ms=1_000,
)
VERIFIED = replace(ONE, verification=ErasureVerification(2_000, 3, 50, 4096))
GOLDEN_OLD = (
    "9a"  # an array of ten
    "01"  # version
    "ac303066663030666630306666"  # id
    "d920" + "61" * 32 + "a174"  # topic id, topic
    "c410000102030405060708090a0b0c0d0e0f" + "c410" + "00" * 16  # hash key, salt
    + "9192" + "c410" + "68" * 16 + "c420" + "64" * 32  # keys
    + "920700" + "cd03e8"  # bounds, requested
)  # fmt: skip
GOLDEN, MORE = "9f" + GOLDEN_OLD[2:], "000000c2c2"  # five more: flushed, cleared, leftovers; two for tables
ROWS = ErasedRows(
    table="k.t", files=2, rows=5, other_files=(("k.t", "p"),), verified_ms=7, job_id=3, states={"k.t": 9}
)


def image_of(*commands: PutKey, partitions: int = 2) -> Any:
    streams = [SimpleNamespace(data_stream_id=10 + number) for number in range(partitions)]
    topics = {TOPIC: SimpleNamespace(partitions=streams)}
    return SimpleNamespace(keys={each.key: each.value for each in commands}, topics=topics)


def keys_put(*erasures: Erasure) -> list[PutKey]:
    return [put_erasure(image_of(), each) for each in erasures]


def test_the_bytes_of_an_erasure() -> None:
    assert encode_erasure(ONE).hex() == GOLDEN + "c0" + MORE
    assert encode_erasure(VERIFIED).hex() == GOLDEN + "95cd07d00332cd100000" + MORE
    assert [decode_erasure(encode_erasure(each)) for each in (ONE, VERIFIED)] == [ONE, VERIFIED]


def test_the_bytes_of_the_first_release_are_read() -> None:
    old = [GOLDEN_OLD + "c0", GOLDEN_OLD + "94cd07d00332cd1000"]
    assert [decode_erasure(bytes.fromhex(each)) for each in old] == [ONE, VERIFIED]


def test_the_bytes_of_erased_rows() -> None:
    golden = "99" + "a36b2e74" + "0205" + "9192a36b2e74a170" + "0703" + "81a36b2e7409" + "00" + "90"
    put = put_erased_rows("00ff00ff00ff", ROWS)
    assert (put.key, put.value.hex()) == ("erased-rows/00ff00ff00ff", golden)
    assert erased_rows(image_of(put), "00ff00ff00ff") == ROWS
    assert list(keys_of(image_of(put, *keys_put(ONE)), ONE.erasure_id)) == [
        f"erasure/{ONE.erasure_id}",
        put.key,
    ]


@pytest.mark.parametrize(
    ("erasure", "rows", "is_pending"),
    [
        (replace(VERIFIED, has_table=True), None, True),
        (replace(VERIFIED, has_table=True), replace(ROWS, verified_ms=0), True),
        (replace(VERIFIED, has_table=True), ROWS, False),
        (VERIFIED, None, False),
        (replace(ONE, has_table=True), None, False),
    ],
)
def test_a_table_comes_after_the_topic(erasure: Erasure, rows: ErasedRows | None, is_pending: bool) -> None:
    image = image_of(*([put_erased_rows(ONE.erasure_id, rows)] if rows else []))
    assert is_table_pending(image, erasure) == is_pending
    assert is_open(image, erasure) == (is_pending or erasure.verification is None)


def test_files_are_deleted_after_the_grace_period_once() -> None:
    image = image_of(put_erased_rows(ONE.erasure_id, ROWS))
    assert [is_deletion_due(image, VERIFIED, now_ms, 10) for now_ms in (16, 17)] == [False, True]
    ended = image_of(put_erased_rows(ONE.erasure_id, replace(ROWS, deleted_ms=17)))
    assert not is_deletion_due(ended, VERIFIED, 100, 10)
    assert not is_deletion_due(image_of(), VERIFIED, 100, 10)


def test_damage_and_newer_versions_are_named() -> None:
    with pytest.raises(UnreadableErasure, match="cannot be read"):
        decode_erasure(encode_erasure(ONE)[:-3])
    with pytest.raises(UnreadableErasure, match="version 2; this program reads 1"):
        decode_erasure(encode_erasure(replace(ONE, version=2)))


def test_they_are_found_the_oldest_first() -> None:
    younger = replace(ONE, erasure_id="b", requested_ms=2_000)
    image = image_of(*keys_put(younger, ONE))
    assert [each.erasure_id for each in erasures_of(image)] == [ONE.erasure_id, "b"]
    assert erasure_of(image, "b") == younger
    assert erasure_of(image, "c") is None


def test_streams_have_the_pending_ones_with_a_bound() -> None:
    image = image_of(*keys_put(ONE, replace(VERIFIED, erasure_id="v")))
    found = erasures_of_streams(image)
    assert list(found) == [10], "partition 1 was empty at the request"
    ((of_stream,),) = found.values()
    assert (of_stream.erasure_id, of_stream.bound, of_stream.hashes) == (ONE.erasure_id, 7, (b"h" * 16,))
    assert has_pending(image)
    assert not has_pending(image_of(*keys_put(VERIFIED)))


def test_a_deleted_topic_has_no_streams() -> None:
    image = image_of(*keys_put(replace(ONE, topic_id="b" * 32)))
    assert erasures_of_streams(image) == {}


def test_too_many_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = replace(ONE, keys=ONE.keys * 1_001)
    with pytest.raises(TooManyErasures, match="at most 1,000 keys, and 1,001 were given"):
        put_erasure(image_of(), many)


def test_all_together_are_bounded_and_one_may_be_written_again() -> None:
    large = replace(ONE, keys=ONE.keys * 1_000)
    there = [put_erasure(image_of(), replace(large, erasure_id=f"{number}")) for number in range(315)]
    full = image_of(*there)
    assert sum(len(each.value) for each in there) <= 16 * 2**20
    with pytest.raises(TooManyErasures, match="siltstone erasures forget"):
        put_erasure(full, replace(large, erasure_id="more"))
    put_erasure(full, replace(large, erasure_id="3", verification=VERIFIED.verification))


def test_noted_objects_belong_to_their_erasure() -> None:
    held = ErasedObject(object_id=9, partition=0, size_bytes=1, records=2, bucket_ids=(0, 3), found_ms=5)
    commands = [
        put_erased_object("b", held),
        put_erased_object("b", replace(held, object_id=10)),
        put_erased_object("bb", replace(held, object_id=11)),
    ]
    image = image_of(*commands, *keys_put(replace(ONE, erasure_id="b")))
    assert [each.object_id for each in erased_objects(image, "b")] == [9, 10]
    assert sorted(keys_of(image, "b")) == [
        f"erased-object/b/{9:020d}",
        f"erased-object/b/{10:020d}",
        "erasure/b",
    ]
    assert msgspec.msgpack.encode(held).hex() == "9809000102920003050000"


def test_keys_of_buckets() -> None:
    assert erasure_id_of_key(list_key("00ff")) == "00ff"
    assert erasure_id_of_key("erasures/") is None
    assert erasure_id_of_key("erasures/a/b") is None
    assert erasure_id_of_key("00/objects/1") is None


def test_a_restored_store_applies_them_up_to_its_own_end() -> None:
    younger = replace(VERIFIED, erasure_id="b", bounds=(3, 20))
    gone = replace(ONE, erasure_id="c", topic_id="c" * 32)
    found = list(applied_again([ONE, younger, gone], {TOPIC: [5, 9]}))
    assert [(each.erasure_id, each.bounds, each.is_pending) for each in found] == [
        (ONE.erasure_id, (5, 0), True),
        ("b", (3, 9), True),
    ]
