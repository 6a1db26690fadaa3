import asyncio

import pytest

from siltstone.server.python_process import run


def test_it_runs_on_uvloop_where_there_is_one() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(run(loop()), uvloop.Loop)


def test_result_and_failure_come_back() -> None:
    async def answer() -> int:
        return 42

    async def fail() -> None:
        raise KeyError("why")

    assert run(answer()) == 42
    with pytest.raises(KeyError, match="why"):
        run(fail())
