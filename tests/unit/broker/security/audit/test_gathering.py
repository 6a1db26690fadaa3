"""What the audit holds until it is written: bounds, counts, order, and hosts that are one network."""

import json
from typing import Any

import pytest

from siltstone.broker.security.audit.gathering import (
    GATHERING_MS,
    KINDS_MAX,
    RECORDS_PER_SECOND_MAX,
    WAITING_BYTES_MAX,
    AuditGathering,
)
from siltstone.model.audit import TEXT_CHARACTERS, AuditEvent, AuditKind, shortened

FAILED = AuditEvent(event=AuditKind.LOGIN, outcome="failed", operation="PLAIN", host="10.1.2.3")
CHANGE = AuditEvent(event=AuditKind.CONFIG, resource="topic t", after="x" * TEXT_CHARACTERS)


def taken(gathering: AuditGathering, now_ms: int, **named: Any) -> list[Any]:
    return [json.loads(each.value) for each in gathering.take(now_ms, **named)]


def failed(host: str) -> AuditEvent:
    return AuditEvent(event=AuditKind.LOGIN, outcome="failed", operation="PLAIN", host=host)


def test_au02_equal_events_of_ten_seconds_are_one_record() -> None:
    gathering = AuditGathering(3)
    for now_ms in range(0, 5_000, 10):
        gathering.add(FAILED, now_ms)
    assert taken(gathering, GATHERING_MS - 1) == []
    (record,) = taken(gathering, GATHERING_MS)
    assert (record["count"], record["node"], record["time"]) == (500, 3, "1970-01-01T00:00:00.000Z")
    assert taken(gathering, GATHERING_MS) == []
    gathering.add(FAILED, 20_000)
    assert "count" not in taken(gathering, 20_000, is_end=True)[0]


@pytest.mark.parametrize(
    ("hosts", "kinds"),
    [
        (("10.1.2.3", "10.1.2.99"), 1),
        (("10.1.2.3", "10.1.3.3"), 2),
        (("2001:db8::1", "2001:db8::ffff:1"), 1),
        (("2001:db8::1", "2001:db8:1::1"), 2),
        (("client.example", "client.example"), 1),
    ],
)
def test_au02_strangers_of_one_network_are_one_kind(hosts: tuple[str, ...], kinds: int) -> None:
    gathering = AuditGathering(0)
    for host in hosts:
        gathering.add(failed(host), 0)
    assert [each["host"] for each in taken(gathering, GATHERING_MS)] == list(hosts)[:kinds]


def test_au02_a_change_leaves_before_a_thousand_kinds() -> None:
    gathering = AuditGathering(0)
    for number in range(3 * KINDS_MAX):
        gathering.add(failed(f"10.{number // 256}.{number % 256}.1"), 0)
    gathering.add(CHANGE, 0)
    first = taken(gathering, GATHERING_MS)
    assert len(first) == RECORDS_PER_SECOND_MAX and first[0]["event"] == "config"
    rest = [each for _ in range(20) for each in taken(gathering, GATHERING_MS)]
    counts = [each.get("count", 1) for each in (*first[1:], *rest)]
    assert len(counts) == KINDS_MAX + 1 and sum(counts) == 3 * KINDS_MAX
    (other,) = [each for each in rest if each.get("resource") == "other"]
    assert other["count"] == 2 * KINDS_MAX and "host" not in other


def test_au02_changes_without_room_are_dropped_and_counted() -> None:
    gathering = AuditGathering(0)
    for now_ms in range(5_000):
        gathering.add(CHANGE, now_ms)
    statistics = gathering.statistics()
    assert statistics.waiting_bytes <= WAITING_BYTES_MAX and statistics.dropped > 1_000
    first = taken(gathering, 6_000)
    assert (first[0]["event"], first[0]["count"]) == ("dropped", statistics.dropped)
    assert all(each["event"] == "config" for each in first[1:])


def test_au02_records_that_were_put_back_are_the_next_and_stay_bounded() -> None:
    gathering = AuditGathering(0)
    for now_ms in range(200):
        gathering.add(CHANGE, now_ms)
    first = gathering.take(0)
    gathering.put_back(first)
    assert gathering.take(0) == first
    for now_ms in range(5_000):
        gathering.add(CHANGE, now_ms)
    gathering.put_back(first)
    assert gathering.statistics().waiting_bytes <= WAITING_BYTES_MAX
    assert gathering.statistics().written == 0
    gathering.wrote(first)
    assert gathering.statistics().written == len(first)


def test_a_text_is_cut() -> None:
    assert shortened("abc", 3) == "abc" and shortened("abcd", 3) == "ab…"
