"""What becomes of the objects that held records of erased keys."""

import msgspec
import pytest

from siltstone.maintenance.erasure.noting import observe
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.metadata.commands import ForgetObjects, PrepareObjects, StartJob
from siltstone.metadata.flushes import put_empty_log
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
from siltstone.offline.erasures import put_erasure
from support.maintenance.erased_world import ID, ErasedWorld


def erased_object(world: ErasedWorld) -> int:
    (stream,) = world.topic()
    held = world.append_pairs(stream, [("a", "1"), ("b", "2")])
    world.ask("a")
    world.erase(), world.erase()
    return held


def swept(world: ErasedWorld, held: int) -> None:
    world.clock.advance_ms(HOUR_MS)
    Sweep(0)  # the kind, whose work is done by hand here
    world.stores[0].delete([object_key(held)])
    world.metadata.execute(ForgetObjects((held,)))


def test_an_object_is_deleted_when_no_bucket_has_it(erased: ErasedWorld) -> None:
    held = erased_object(erased)
    observe(erased.context, [ID])
    (noted,) = erased.holders()
    assert noted.replaced_ms and not noted.deleted_ms

    swept(erased, held)
    observe(erased.context, [ID])
    (noted,) = erased.holders()
    assert noted.deleted_ms == erased.clock.now_ms()
    assert noted.replaced_ms < noted.deleted_ms

    later = noted.deleted_ms
    erased.clock.advance_ms(HOUR_MS)
    observe(erased.context, [ID])
    assert erased.holders()[0].deleted_ms == later, "the time is that of the first look"


def test_that_the_metadata_has_forgotten_it_is_no_proof(erased: ErasedWorld) -> None:
    held = erased_object(erased)
    data = erased.bytes_of(held)
    swept(erased, held)
    erased.stores[0].put(object_key(held), [data])
    observe(erased.context, [ID])
    assert not erased.holders()[0].deleted_ms


def test_a_bucket_that_does_not_answer_proves_nothing(erased: ErasedWorld) -> None:
    held = erased_object(erased)
    swept(erased, held)

    def refuse(name: str, key: str) -> None:
        if name == "head":
            raise Unavailable("the bucket is out")

    erased.stores[0].before = refuse
    observe(erased.context, [ID])
    assert not erased.holders()[0].deleted_ms


def test_objects_replaced_before_the_look_count_until_they_are_deleted(erased: ErasedWorld) -> None:
    held = erased_object(erased)
    observe(erased.context, [ID])
    assert (erased.erasure().leftovers, erased.erasure().cleared_ms) == (1, 0)
    swept(erased, held)
    observe(erased.context, [ID])
    assert (erased.erasure().leftovers, erased.erasure().cleared_ms) == (0, erased.clock.now_ms())


@pytest.mark.parametrize("has_key", [True, False])
def test_a_prepared_object_counts_if_it_holds_the_keys(has_key: bool, erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, [("a", "1"), ("b", "2")])
    data = erased.bytes_of(held)
    job_id = erased.metadata.execute(StartJob("so-compaction", "a driver that dies", HOUR_MS))
    prepared = erased.metadata.execute(PrepareObjects(1, HOUR_MS, job_id=job_id))
    erased.ask("a" if has_key else "c")
    erased.stores[0].put(object_key(prepared), [data])
    erased.erase(), erased.erase()
    if has_key:
        swept(erased, held)
    observe(erased.context, [ID])
    assert erased.erasure().leftovers == has_key
    erased.stores[0].delete([object_key(prepared)])
    observe(erased.context, [ID])
    assert (erased.erasure().leftovers, bool(erased.erasure().cleared_ms)) == (0, True)


def test_nothing_is_verified_while_a_node_keeps_records(
    erased: ErasedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.scanning.flushing.FLUSH_MS_MAX", 0)
    (stream,) = erased.topic()
    erased.append_pairs(stream, [("a", "1"), ("b", "2")])
    asked = erased.ask("a")
    erased.metadata.execute(put_erasure(erased.image, msgspec.structs.replace(asked, flushed_ms=0)))
    report = erased.erase()
    assert "may have records in its write-ahead log" in report.units[0].text
    erased.erase(is_forced=True)
    assert erased.erasure().is_pending, "nothing is left in the objects"
    erased.metadata.execute(put_empty_log(0, 1))  # it was stopped cleanly
    erased.erase(is_forced=True)
    assert erased.erasure().flushed_ms and not erased.erasure().is_pending
