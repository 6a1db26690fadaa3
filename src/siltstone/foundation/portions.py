"""Items in portions, each within limits: what is read, run or committed together."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(
    items: Iterable[T], count_max: int, weigh: Callable[[T], tuple[int, ...]], limits: tuple[int, ...]
) -> Iterator[tuple[T, ...]]:
    """In their order, as many together as ``count_max`` and every limit allow; one that is over a limit by itself goes
    alone. ``weigh`` gives a weight for each limit."""
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
