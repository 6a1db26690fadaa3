"""Explores all states of a small model, breadth first, and says how it came to one that must not be."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Violation(AssertionError):
    """A state that must not be; ``steps`` lead to it."""

    def __init__(self, what: str, steps: list[str]) -> None:
        super().__init__(f"{what}: {', '.join(steps)}")
        self.what = what
        self.steps = steps


class Model(NamedTuple, Generic[S]):
    """``steps_of``: what may happen next, in words, and the state after it; a step may raise Violation itself.
    ``wrong_in``: why a state must not be, or "". ``is_end``: whether nothing more has to happen in a state."""

    first: S
    steps_of: Callable[[S], Iterable[tuple[str, S]]]
    wrong_in: Callable[[S], str]
    is_end: Callable[[S], bool]


def explore(model: Model[S], states_max: int = 2_000_000) -> int:
    """→ The number of states, all of which were seen. Raises Violation, with a shortest way to it."""
    came_from: dict[S, tuple[S, str] | None] = {model.first: None}
    coming = deque([model.first])
    while coming:
        state = coming.popleft()
        if what := model.wrong_in(state):
            raise Violation(what, way_to(came_from, state))
        is_stuck = True
        try:
            for step, following in model.steps_of(state):
                is_stuck = False
                if following not in came_from:
                    came_from[following] = state, step
                    coming.append(following)
        except Violation as found:
            raise Violation(found.what, [*way_to(came_from, state), *found.steps]) from None
        if is_stuck and not model.is_end(state):
            raise Violation("nothing can happen any more", way_to(came_from, state))
        assert len(came_from) < states_max, "the model is not as small as it was meant to be"
    return len(came_from)


def way_to(came_from: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]
