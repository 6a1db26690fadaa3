"""Tests that are coroutines: ``@scenario(in_world)`` runs one in a world that a function makes for it.

The first parameter of such a test is the world, and the others are fixtures and parameters. If a world has several
parts, they stand before a ``/``.

    @scenario(in_broker_world, SETTINGS)
    async def test_an_append_is_durable(world: BrokerWorld, size: int) -> None: ...
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter, Signature, isawaitable, signature
from typing import Any

Scenario = Callable[..., Awaitable[None]]
Test = Callable[..., None]


def scenario(enter: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[[Scenario], Test]:
    """``enter`` is called with a function of the world and with ``arguments``. What it returns is run if it is a
    coroutine."""

    def decorated(test: Scenario) -> Test:
        parts, fixtures = _split(signature(test))

        @wraps(test)
        def run(**given: Any) -> None:
            async def in_world(*world: Any) -> None:
                assert len(world) == parts, f"the world has {len(world)} parts, and the test takes {parts}"
                await test(*world, **given)

            entered = enter(in_world, *arguments, **named)
            if isawaitable(entered):
                asyncio.run(_awaited(entered))

        run.__signature__ = fixtures  # type: ignore[attr-defined]  pytest reads it to find the fixtures
        return run

    return decorated


def in_loop(test: Scenario) -> Test:
    """Runs the test in an event loop of its own; all its parameters are fixtures."""
    return in_loop_of(asyncio.run)(test)


def in_loop_of(run_coroutine: Callable[[Any], Any]) -> Callable[[Scenario], Test]:
    """Runs the test in the loop of ``run_coroutine``, such as one whose time does not pass by itself."""

    def decorated(test: Scenario) -> Test:
        @wraps(test)
        def run(**given: Any) -> None:
            run_coroutine(test(**given))

        return run

    return decorated


def _split(whole: Signature) -> tuple[int, Signature]:
    """Returns how many parameters are parts of the world, and the signature without them."""
    parameters = list(whole.parameters.values())
    parts = sum(each.kind is Parameter.POSITIONAL_ONLY for each in parameters) or 1
    return parts, whole.replace(parameters=parameters[parts:])


async def _awaited(entered: Awaitable[None]) -> None:
    await entered
