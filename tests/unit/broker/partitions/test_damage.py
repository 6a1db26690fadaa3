"""What the log and the statistics say about reads that fail."""

import logging

import pytest

from siltstone.broker.partitions.damage import (
    DamageReport,
    DamageStatistics,
)
from siltstone.model.objects import object_key
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.log_limit import LOG_INTERVAL_MS, LOG_SUBJECTS_MAX
from siltstone.stream_engine.errors import DamagedRange
from support.values.left_out import numbers_left_out


def damage_of(object_id: int = 17) -> DamagedRange:
    return DamagedRange(5, 100, 250, object_id, 2, "no object at the key")


def test_the_line_says_what_is_lost_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    DamageReport(ManualClock()).refused("flights-3", damage_of())
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage() == (
        "partition flights-3: offsets 100 to 249 of stream 5 cannot be read from object 17 "
        f"({object_key(17)} in bucket 2): no object at the key; run siltstone check. Consumers get CORRUPT_MESSAGE at "
        "these offsets. Restore the object, or set siltstone.damaged.read=skip on the topic to let consumers read on "
        "behind the damage"
    )


def test_the_line_about_skipped_offsets_says_where_consumers_read_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    DamageReport(ManualClock()).skipping("flights-3", damage_of())
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert "offsets 100 to 249" in line.getMessage() and "read on at offset 250" in line.getMessage()


def test_one_line_for_an_object_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    report = DamageReport(clock)
    for _ in range(100):
        report.refused("a-0", damage_of(1))
        report.refused("b-0", damage_of(1))
        report.refused("a-0", damage_of(2))
        report.opened_without("a-0", damage_of(2))
    assert [line.getMessage().split(":")[0] for line in caplog.records] == ["partition a-0"] * 3
    clock.advance_ms(LOG_INTERVAL_MS - 1)
    report.skipping("a-0", damage_of(1))
    assert len(caplog.records) == 3
    clock.advance_ms(1)
    report.refused("b-0", damage_of(1))
    assert len(caplog.records) == 4
    assert report.statistics().reads_refused == 301


def test_trouble_that_may_pass_is_a_warning_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    report = DamageReport(ManualClock())
    for number in range(50):
        report.failed(f"t-{number}", StoreTransient("SlowDown"))
    (line,) = caplog.records
    assert (line.levelno, report.statistics()) == (logging.WARNING, DamageStatistics())
    assert line.getMessage() == "partition t-0 cannot be read at the moment, and clients try again: SlowDown"


def test_only_so_many_objects_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    report = DamageReport(ManualClock())
    for object_id in range(LOG_SUBJECTS_MAX + 1):
        report.refused("t-0", damage_of(object_id))
    caplog.clear()
    report.refused("t-0", damage_of(LOG_SUBJECTS_MAX))
    assert caplog.records == []
    report.refused("t-0", damage_of(0))  # the oldest was forgotten
    assert len(caplog.records) == 1


def test_skipped_offsets_are_counted() -> None:
    report = DamageReport(ManualClock())
    report.continued(150)
    report.continued(10)
    assert report.statistics() == DamageStatistics(reads_refused=0, reads_continued=2, offsets_skipped=160)


def test_what_is_left_out() -> None:
    assert numbers_left_out(DamageStatistics) == {
        "reads_refused": 0,
        "reads_continued": 0,
        "offsets_skipped": 0,
    }
