from siltstone.carrying.pipeline.kind import Budget, Outcome, Plan, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.metadata.commands import PinScan
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS, SCAN_PIN_OVERDUE_MS, SET_ASIDE_MS_MIN
from siltstone.model.objects import object_key
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.maintained_store import MaintainedStore

GRACE_MS = 60_000
KIND = Sweep(GRACE_MS)


def planned(at: MaintainedStore, scope: Scope | None = None) -> Plan:
    return KIND.plan(at.context, scope or Scope(), Watch("sweep", at.clock))


def ran(at: MaintainedStore) -> RunReport:
    return run(at.context, KIND, InProcessRunner, Scope(), Budget(), Watch("sweep", at.clock))


def test_with_nothing_due_there_is_no_unit() -> None:
    plan = planned(MaintainedStore())
    assert (plan.units, plan.unplanned, plan.has_remaining) == ([], [], False)


def test_what_was_not_committed_in_time_is_given_up_then_waits_then_goes() -> None:
    at = MaintainedStore()
    at.destroyed(3)
    (unit,) = planned(at).units
    assert unit.reason == "give up 3 prepared objects: the time limit has passed"
    assert ran(at).units[0].text == "0 objects deleted, 0 B; 3 given up"
    plan = planned(at)
    assert plan.units == [] and plan.unplanned[0].reason == "3 destroyed objects still in the grace period"
    at.clock.advance_ms(GRACE_MS)
    (unit,) = planned(at).units
    assert unit.reason.startswith("delete 3 objects")
    report = ran(at)
    assert report.units[0].outcome is Outcome.DONE and report.job_id is None
    assert at.keys() == set() and not at.image.jobs


def test_an_upload_that_nobody_will_complete_is_reason_enough() -> None:
    at = MaintainedStore()
    at.store.start_multipart(object_key(at.prepare(time_limit_ms=1)))
    at.clock.advance_ms(1)
    ran(at)
    at.store.start_multipart(object_key(0))
    (unit,) = planned(at).units
    assert unit.reason == "abort 1 orphaned upload"
    assert ran(at).is_well and list(at.store.list_multipart()) == []


def test_it_is_not_done_by_topic() -> None:
    at = MaintainedStore()
    at.destroyed(1)
    plan = planned(at, Scope(topics=frozenset({"flights"})))
    assert not plan.units and plan.unplanned[0].reason == "the sweep covers all topics: leave out --topic"


def test_sr8_pins_are_explained_and_ended_in_time() -> None:
    at = MaintainedStore()
    at.metadata.execute(PinScan("q", GRACE_MS, "a query"))
    at.destroyed(2)
    assert ran(at).is_well, "given up"
    at.clock.advance_ms(GRACE_MS)
    plan = planned(at)
    assert plan.units == []
    (pin,) = plan.unplanned
    assert pin.name == "pin q" and pin.reason.startswith("a query holds 2 destroyed objects, ")
    at.clock.advance_ms(SCAN_PIN_OVERDUE_MS)
    (unit,) = planned(at).units
    assert unit.reason == (
        "delete 2 objects, 0 B: the grace period is over; end 1 scan pin: the lease is over"
    )
    assert planned(at).unplanned == []
    assert ran(at).units[0].text == "2 objects deleted, 0 B; 1 scan pin ended"
    assert at.keys() == set() and not at.image.pins


def test_an_overdue_pin_that_holds_nothing_is_ended_too() -> None:
    at = MaintainedStore()
    at.metadata.execute(PinScan("q", 1))
    at.metadata.execute(PinScan("r", HOUR_MS))
    assert planned(at).units == []
    at.clock.advance_ms(1 + SCAN_PIN_OVERDUE_MS)
    assert ran(at).units[0].text == "0 objects deleted, 0 B; 1 scan pin ended"
    assert set(at.image.pins) == {"r"}


def test_a_bucket_out_of_reach_is_told_and_set_aside() -> None:
    at = MaintainedStore()

    def unreachable(name: str, _key: str) -> None:
        if name == "list_multipart":
            raise Unavailable("no route to the bucket")

    at.destroyed(1)
    at.store.before = unreachable
    assert planned(at).unplanned[0].reason == "no route to the bucket"
    report = ran(at)
    assert report.failed and "skipped: bucket 0: no route to the bucket" in report.failed[0].text


def test_deleting_never_waits_longer_than_a_minute_for_what_failed() -> None:
    at = MaintainedStore()

    def unreachable(name: str, _key: str) -> None:
        if name == "delete":
            raise Unavailable("no route to the bucket")

    at.destroyed(1)
    assert ran(at).is_well, "given up"
    at.clock.advance_ms(GRACE_MS)
    at.store.before = unreachable
    for _ in range(8):
        assert ran(at).failed
        at.clock.advance_ms(SET_ASIDE_MS_MIN)
