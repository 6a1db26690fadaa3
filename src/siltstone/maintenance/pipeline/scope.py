"""The scope of a run (which topics it is about, and whether it is forced) and its budget (how many bytes it may read
and write, and for how long)."""

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest

SUGGESTIONS_MAX = 3


class TopicNotThere(InvalidRequest):
    """The store has no topic of that name."""


def topics_named(image: ImageView, names: Iterable[str]) -> frozenset[str]:
    """The names as a set, each checked against the image. A single string is one name. Raises TopicNotThere."""
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(wanted):
        if name not in image.topic_ids:
            near = get_close_matches(name, sorted(image.topic_ids), n=SUGGESTIONS_MAX)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else "siltstone maintain explain lists the topics"
            )
            raise TopicNotThere(f"there is no topic {name} in this store: {hint}")
    return wanted


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """``topics`` are names; None means all streams, also those of no topic. A run that ``is_forced`` ignores intervals,
    thresholds and set-aside units, but never the rules that protect data. ``up_to`` is for key compaction of one topic:
    it compacts up to this offset, whatever the lags and ratios are."""

    topics: frozenset[str] | None = None
    is_forced: bool = False
    up_to: int | None = None

    def includes(self, topic: str | None) -> bool:
        return self.topics is None or topic in self.topics


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A run begins units as long as some of its budget is left. The first unit is always begun, since otherwise a unit
    larger than the budget would never be done."""

    bytes_max: int | None = None
    seconds_max: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidRequest(f"{name} is {value}; it must be more than 0")
