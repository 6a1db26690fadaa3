"""The report of an erasure."""

import msgspec

from siltstone.maintenance.erasure.noting import observe
from siltstone.maintenance.erasure.report import report_of, time_of
from siltstone.metadata.commands import ForgetObjects
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
from support.maintenance.erased_world import ID, ErasedWorld


def test_states_from_the_request_to_the_end(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, [("a", "SECRET"), ("b", "2")])

    def state() -> str:
        return report_of(erased.context.metadata.refresh(), erased.erasure(), erased.clock.now_ms()).state

    erased.ask("a")
    assert state() == "pending"
    erased.erase()
    assert state() == "pending"
    erased.erase()
    assert state() == "verified"
    erased.clock.advance_ms(HOUR_MS)
    erased.stores[0].delete([object_key(held)])
    erased.metadata.execute(ForgetObjects((held,)))
    assert state() == "verified", "nobody has looked yet"
    observe(erased.context, [ID])
    assert state() == "complete"


def test_it_names_objects_and_digests_and_no_key(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, [("user-17", "SECRET"), ("b", "2"), ("user-17", "SECRET")])
    erased.ask("user-17")
    erased.erase(), erased.erase()
    report = report_of(erased.context.metadata.refresh(), erased.erasure(), 5_000)
    assert (report.erasure, report.topic, report.records, report.in_buckets) == (ID, "t", 2, 1)
    assert [each.object_id for each in report.objects] == [held]
    assert (report.objects_looked_at, report.records_looked_at) == (1, 1)
    assert report.reported == "1970-01-01T00:00:05.000Z"
    text = msgspec.json.encode(report)
    assert b"user-17" not in text and b"SECRET" not in text
    assert bytes(32).hex().encode() in text


def test_times_are_in_utc_with_milliseconds() -> None:
    assert time_of(1_795_948_722_515) == "2026-11-29T10:38:42.515Z"
