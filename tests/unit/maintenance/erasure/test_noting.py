"""What becomes of the objects that held records of erased keys."""

from siltstone.maintenance.erasure.noting import observe
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.metadata.commands import ForgetObjects
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
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
