"""What a decision is. Within this package a refusal is raised; ``table.decide`` returns it."""

from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.records import Record

R = TypeVar("R")


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """What to write, and what to answer once it is written. No records: it stands already."""

    records: tuple[Record, ...]
    result: R
