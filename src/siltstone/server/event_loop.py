"""The event loop a node runs on: uvloop where there is one, asyncio's own elsewhere.

Everything works on both; uvloop needs less of the processor for small requests: docs/decisions/0007-network.md.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop
except ImportError:  # Windows, PyPy
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
