"""What a run is asked to look at, and how much it may take."""

import msgspec

from siltstone.model.errors import InvalidRequest


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
