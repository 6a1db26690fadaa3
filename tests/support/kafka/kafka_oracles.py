"""Apache Kafka's own programs for tests: skipped where they cannot be had, and only for that reason."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pytest

from oracles.java_artifacts import JavaArtifactsUnavailable

T = TypeVar("T")


@contextmanager
def or_skip(oracle: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """The oracle running. A machine without network or Java skips what needs it, with the reason."""
    running = oracle()
    try:
        entered = running.__enter__()
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    try:
        yield entered
    finally:
        running.__exit__(None, None, None)
