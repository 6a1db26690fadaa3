"""What a run is asked to look at, and how much it may take.

The topics that somebody named.
"""

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest

SUGGESTIONS_MAX = 3


class TopicNotThere(InvalidRequest):
    """The store has no topic of that name."""


def topics_named(image: ImageView, names: Iterable[str]) -> frozenset[str]:
    """A text is one name, not one for each of its letters. Raises TopicNotThere."""
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(wanted):
        if name not in image.topic_ids:
            near = get_close_matches(name, sorted(image.topic_ids), n=SUGGESTIONS_MAX)
            hint = f"did you mean {' or '.join(near)}?" if near else "siltstone maintain explain shows them"
            raise TopicNotThere(f"there is no topic {name} in this store: {hint}")
    return wanted


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """``topics``: names; None stands for everything, streams of no topic included. ``is_forced``: what waits for an
    interval or a threshold is done at once, what must not be done is not. ``up_to``: key compaction alone, of one
    topic: as far as this offset, whatever lags and ratios say."""

    topics: frozenset[str] | None = None
    is_forced: bool = False
    up_to: int | None = None

    def includes(self, topic: str | None) -> bool:
        return self.topics is None or topic in self.topics


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Units are begun as long as there is some left: the first one always, or a large one would never be."""

    bytes_max: int | None = None
    seconds_max: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidRequest(f"{name} is {value}: it must be more than nothing")
