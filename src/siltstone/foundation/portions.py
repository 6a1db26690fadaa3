"""Splits items into portions within limits: objects that are read, run or committed together."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(
    items: Iterable[T], count_max: int, weigh: Callable[[T], tuple[int, ...]], limits: tuple[int, ...]
) -> Iterator[tuple[T, ...]]:
    """Yields the items in their order, in portions of at most ``count_max`` items.

    ``weigh`` returns one weight of an item for each limit; the sum over a portion stays within every limit. An item
    that exceeds a limit by itself makes a portion of its own."""
    together: list[T] = []
    held = (0,) * len(limits)
    for item in items:
        weights = weigh(item)
        is_beyond = any(have + more > most for have, more, most in zip(held, weights, limits, strict=True))
        if together and (is_beyond or len(together) == count_max):
            yield tuple(together)
            together, held = [], (0,) * len(limits)
        together.append(item)
        held = tuple(have + more for have, more in zip(held, weights, strict=True))
    if together:
        yield tuple(together)
