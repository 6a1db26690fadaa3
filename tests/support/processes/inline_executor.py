"""``InlineExecutor`` is a pool without threads: a call is done when ``submit`` returns.

It replaces a pool of threads where random numbers are drawn, so that their order is fixed.
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
        """Takes the arguments of a pool of threads, and makes no thread."""

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
