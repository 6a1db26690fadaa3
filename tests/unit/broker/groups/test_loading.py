"""State from a log: the newest record of each key counts."""

import asyncio
import logging

import pytest

from siltstone.broker.groups.loading import Replay, group_of, replay
from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    GroupRecord,
    MemberMetadata,
    OffsetKey,
    OffsetRecord,
    Record,
    encode_record,
)
from siltstone.broker.groups.rules.decision import metadata_of
from siltstone.broker.groups.rules.states import GroupState
from support.groups.consumer_bytes import subscription
from support.groups.group_logs import MemoryGroupLog
from support.groups.group_world import stable


def offset(number: int | None, partition: int = 0, group: str = "g") -> OffsetRecord:
    committed = None if number is None else CommittedOffset(number, -1, "", 1)
    return OffsetRecord(OffsetKey(group, "flights", partition), committed)


def generation(number: int | None, group: str = "g") -> GroupRecord:
    metadata = None if number is None else GroupMetadata("consumer", number, None, None, 1)
    return GroupRecord(GroupKey(group), metadata)


def read(*records: Record) -> Replay:
    async def run() -> Replay:
        log = MemoryGroupLog()
        if records:
            await log.append([encode_record(record) for record in records])
        return await replay(log)

    return asyncio.run(run())


def test_an_empty_log_is_an_empty_state() -> None:
    done = read()
    assert done.groups == {} and done.records_read == 0


def test_the_newest_record_of_a_key_counts() -> None:
    done = read(offset(1), offset(2, 1), generation(1), offset(3), generation(2), offset(4, 0, "other"))
    assert done.records_read == 6
    cell = done.groups["g"]
    assert {key: committed.offset for key, committed in cell.offsets.items()} == {
        ("flights", 0): 3,
        ("flights", 1): 2,
    }
    assert cell.group.generation == 2 and cell.group.is_saved and cell.live_records == 3
    assert done.groups["other"].group.is_simple and not done.groups["other"].group.is_saved


def test_tombstones_bury() -> None:
    done = read(
        offset(1), generation(1), offset(None), generation(1, "h"), generation(None, "h"), offset(None, 9)
    )
    assert done.groups.keys() == {"g"} and done.groups["g"].offsets == {}
    again = read(offset(1), generation(1), generation(None))
    assert again.groups["g"].group.is_simple and not again.groups["g"].group.is_saved


def test_a_group_comes_back_as_it_was_written_down() -> None:
    group = stable("leader", "static", static=("static",)).group
    loaded = group_of("readers", metadata_of(group))
    assert loaded == group


def test_members_without_a_protocol_are_members() -> None:
    member = MemberMetadata("m", None, "c", "h", 5, 6, subscription("flights"), b"a")
    group = group_of("g", GroupMetadata("", 1, None, "m", 1, (member,)))
    assert group.state is GroupState.STABLE and group.members["m"].session_timeout_ms == 6
    assert group.protocol_type is None


def test_ng25_unknown_kinds_are_kept_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    done = Replay()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            done.read((b"\x00\x18whatever", b"x"))
        done.read((b"\x00\x18gone", b"x"))
        done.read((b"\x00\x18gone", None))
        done.read(encode_record(offset(1)))
    assert done.finish().keys() == {"g"} and done.records_read == 6
    assert len(caplog.records) == 1 and "version 24" in caplog.text
    assert done.unknown == {b"\x00\x18whatever": b"x"}


def test_damage_is_not_skipped() -> None:
    with pytest.raises(DamagedGroupRecord):
        Replay().read((b"\x00\x01\x00", None))
