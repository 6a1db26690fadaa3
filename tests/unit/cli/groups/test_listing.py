import pytest

from siltstone.cli.groups import listing as module
from siltstone.cli.groups.listing import GroupRow, group_rows, groups_table
from siltstone.cli.output import results
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.groups import GroupSummary

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_each_group_has_its_own_topics_and_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = {"g": {U0: 1, T1: 4, T0: 4}, "h": {}}
    monkeypatch.setattr(
        module, "all_groups", lambda _: [GroupSummary("g", "Empty", members=()), GroupSummary("h", "Dead")]
    )
    monkeypatch.setattr(
        module,
        "offsets_of_groups",
        lambda _, groups: {each.group_id: committed[each.group_id] for each in groups},
    )
    there = {U0, T0, T1, *(TopicPartition("t", number) for number in (2, 3))}
    monkeypatch.setattr(module, "partitions_of_topics", lambda _, names: there)
    monkeypatch.setattr(
        module, "end_offsets", lambda _, keys: {key: 0 if key.partition == 3 else 10 for key in keys}
    )
    monkeypatch.setattr(module, "record_bytes", lambda _, behind, ends: dict.fromkeys(behind, 2.0))
    text = '{"siltstone_query":"q","id":"1","records":3,"bytes":6,"seconds":1.5}'
    monkeypatch.setattr(module, "committed_texts", lambda _, groups: {"g": {U0: "", T1: text}, "h": {}})
    assert group_rows(None) == [
        GroupRow("g", "Empty", 0, ["t", "u"], 21, 1, 42, 1.5),
        GroupRow("h", "Dead", None, [], 0, 0, 0, 0.0),
    ]


def test_how_the_list_looks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        GroupRow("[b]g", "Stable", 1200, ["t", "u"], 34_567, 3, 2_048, 3.5),
        GroupRow("h", "Dead", None, [], 0, 0, 0, 0.0),
        GroupRow("i", "Empty", 0, [], 0, 2, 0),
        GroupRow("j", "Empty", 0, [], 5),
    ]
    results(80).print(groups_table(rows))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["group", "state", "members", "lag", "bytes", "late", "no", "commit", "topics"]
    assert lines[2:] == [
        ["[b]g", "stable", "1,200", "≥", "34,567", "2.0", "KiB", "≥", "3.5", "s", "3", "t", "u"],
        ["h", "dead", "-", "0", "0", "B", "0", "ms", "0"],
        ["i", "empty", "0", "?", "-", "-", "2"],
        ["j", "empty", "0", "5", "-", "-", "0"],
    ]
