"""What groups have committed: the bytes of Kafka as the broker writes them, and what is left of many commits."""

import logging

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
    encode_record,
)
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.maintenance.retention.groups import GroupProgress, encode_progress, key_of
from siltstone.metadata.commands import PutKey
from siltstone.metadata_tables import commits as module
from siltstone.metadata_tables.commits import TooManyCommits, decode_commit, mirrored_commits, newest_commits
from siltstone.metadata_tables.moment import GroupCommit
from support.metadata.queried_store import FLIGHTS, queried_world

TEXTS = st.text(max_size=20)
LONGS = st.integers(min_value=0, max_value=2**62)


@given(TEXTS, TEXTS, st.integers(0, 2**31 - 1), LONGS, LONGS, TEXTS, st.none() | LONGS)
def test_a_commit_is_read_as_the_broker_writes_it(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    committed_ms: int,
    metadata: str,
    expires_ms: int | None,
) -> None:
    committed = CommittedOffset(offset, 3, metadata, committed_ms, expires_ms)
    key, value = encode_record(OffsetRecord(OffsetKey(group, topic, partition), committed))
    assert value is not None
    assert decode_commit(key, value) == GroupCommit(group, topic, partition, offset, committed_ms, metadata)


def test_the_topic_is_that_of_the_broker() -> None:
    assert module.OFFSETS_TOPIC == OFFSETS_TOPIC


def batch(*records: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    keys, values = zip(*records, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"]
    )


def commit(group: str, offset: int | None, partition: int = 0) -> tuple[bytes, bytes | None]:
    committed = None if offset is None else CommittedOffset(offset, -1, "", 9)
    return encode_record(OffsetRecord(OffsetKey(group, "flights", partition), committed))


def test_the_newest_record_of_a_key_counts_and_a_tombstone_ends_it() -> None:
    group = encode_record(GroupRecord(GroupKey("a"), GroupMetadata("consumer", 1, None, None, 0)))
    batches = [
        batch(commit("a", 3), group, commit("b", 5)),
        batch(commit("a", 7), commit("b", None), (None, b"x")),
    ]
    assert newest_commits(batches) == [GroupCommit("a", "flights", 0, 7, 9)]


@pytest.mark.parametrize("value", [b"", b"\x00\x09" + bytes(30), b"\x00\x03" + bytes(8)])
def test_a_damaged_record_is_left_out_and_said(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert newest_commits([batch(commit("a", 3), (commit("b", 3)[0], value))]) == [
            GroupCommit("a", "flights", 0, 3, 9)
        ]
    assert "a record of __consumer_offsets is left out" in caplog.text


def test_more_commits_than_memory_allows_are_refused() -> None:
    few = batch(commit("a", 1), commit("b", 1))
    assert len(newest_commits([few, few], 2)) == 2
    with pytest.raises(TooManyCommits):
        newest_commits([few, batch(commit("c", 1))], 2)


def test_mirrored_progress_counts_where_it_is_known(caplog: pytest.LogCaptureFixture) -> None:
    world = queried_world()
    world.do(PutKey(key_of("waited"), encode_progress(GroupProgress({FLIGHTS: (-1, 4), "0" * 32: (7,)}))))
    world.do(PutKey(key_of("damaged"), b"no JSON"))
    with caplog.at_level(logging.WARNING):
        assert list(mirrored_commits(world.image)) == [GroupCommit("waited", "flights", 1, 4)]
    assert "group-progress/damaged is left out" in caplog.text
