"""A pool without threads: what is submitted has happened when ``submit`` returns.

In place of a pool of threads where chance is drawn, so that it is drawn in one order.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import ModuleType
from typing import ParamSpec, TypeVar

import pytest

POOLS = ("ThreadPoolExecutor", "PacedThreads")

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(Executor):
    def __init__(self, threads_max: int, thread_name_prefix: str = "") -> None:
        """Takes what a pool of threads takes, and makes none."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as failure:
            future.set_exception(failure)
        return future


def put_inline_in(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    for module in modules:
        found = [name for name in POOLS if hasattr(module, name)]
        assert found, f"{module.__name__} has no pool any more"
        for name in found:
            monkeypatch.setattr(module, name, InlineExecutor)
