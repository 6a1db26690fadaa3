"""What is asked and done by a reset. tests/unit/cli/groups/test_reset.py has it on a real broker."""

import pytest

from siltstone.kafka_client import resetting
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.groups import GroupSummary
from siltstone.kafka_client.resetting import (
    GroupInUse,
    ResetOutdated,
    ResetRow,
    confirmed_reset,
    refuse_members,
    reset_rows,
)

EMPTY = GroupSummary("g", "Empty", members=())


class Group:
    """A group in place of the brokers: its state and its offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **offsets: int) -> None:
        self.state = EMPTY
        self.offsets = {TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()}
        monkeypatch.setattr(resetting, "describe_group", lambda cluster, group_id: self.state)
        monkeypatch.setattr(resetting, "offsets_of_groups", lambda cluster, groups: {"g": dict(self.offsets)})
        monkeypatch.setattr(
            resetting, "set_offsets", lambda cluster, group, found: self.offsets.update(found)
        )

    def reset(self, *rows: ResetRow) -> None:
        confirmed_reset(None, "g", rows)  # type: ignore[arg-type]


def test_rows_say_what_is_read_again_and_what_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    Group(monkeypatch, p0=9)
    targets = {TopicPartition("t", 1): 3, TopicPartition("t", 0): 4}
    rows = reset_rows(None, EMPTY, targets)  # type: ignore[arg-type]
    assert rows == [ResetRow("t", 0, 9, 4), ResetRow("t", 1, None, 3)]
    assert [(each.again, each.skipped) for each in rows] == [(5, 0), (0, 0)]
    assert (ResetRow("t", 0, 4, 9).again, ResetRow("t", 0, 4, 9).skipped) == (0, 5)


def test_what_was_shown_is_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, p0=9)
    group.reset(ResetRow("t", 0, 9, 4), ResetRow("t", 1, None, 3))
    assert group.offsets == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 3}


def test_wc10_a_group_that_has_moved_since_keeps_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, p0=10)
    with pytest.raises(ResetOutdated, match="continues t-0 at 10 now, and at 9 when"):
        group.reset(ResetRow("t", 0, 9, 4))
    with pytest.raises(ResetOutdated, match="at no offset now, and at 2"):
        group.reset(ResetRow("t", 1, 2, 4))
    assert group.offsets == {TopicPartition("t", 0): 10}


def test_wc10_a_group_with_members_keeps_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, p0=9)
    group.state = GroupSummary("g", "Stable", members=None)
    with pytest.raises(GroupInUse, match="group g is stable and has members: stop them first"):
        group.reset(ResetRow("t", 0, 9, 4))
    assert group.offsets == {TopicPartition("t", 0): 9}
    refuse_members(GroupSummary("g", "Dead"))
