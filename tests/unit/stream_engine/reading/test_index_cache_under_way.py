import asyncio

import pytest

from siltstone.model.errors import Unavailable
from siltstone.stream_engine.reading.index_cache import LoadsUnderWay
from support.scenarios import in_loop


@in_loop
async def test_all_who_wait_get_the_value() -> None:
    loads: LoadsUnderWay[str, int] = LoadsUnderWay()
    promise = loads.begin("a")
    assert loads.get("a") is promise
    loads.succeed("a", 7)
    assert await promise == 7
    assert loads.get("a") is None
    assert len(loads) == 0


@in_loop
async def test_beginning_twice_is_a_bug() -> None:
    loads: LoadsUnderWay[str, int] = LoadsUnderWay()
    loads.begin("a")
    with pytest.raises(AssertionError, match="being loaded"):
        loads.begin("a")


def test_failure_ends_those_named_and_needs_nobody_to_see_it(caplog):
    async def scenario():
        loads: LoadsUnderWay[str, int] = LoadsUnderWay()
        failed, unseen, other = loads.begin("a"), loads.begin("b"), loads.begin("c")
        loads.fail(["a", "b"], Unavailable("later"))
        with pytest.raises(Unavailable):
            await failed
        del unseen
        assert not other.done()
        loads.fail_all(Unavailable("closed"))
        loads.succeed("c", 1)
        with pytest.raises(Unavailable, match="closed"):
            await other

    asyncio.run(scenario())
    assert "never retrieved" not in caplog.text
