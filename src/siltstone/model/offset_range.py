"""Offset ranges: half open, 64-bit, of one stream.

Offsets count records of a stream from 0. [start, end) covers start and stops before end.
"""

import msgspec


class OffsetRange(msgspec.Struct, frozen=True, order=True, gc=False):
    """[start, end) of one stream. Empty when both are equal."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        """Not by ``len``, which Python cannot tell beyond 2**63 - 1."""
        return self.start < self.end

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def overlaps(self, other: "OffsetRange") -> bool:
        """Whether some offset lies in both: an empty range overlaps nothing."""
        return max(self.start, other.start) < min(self.end, other.end)

    def intersection(self, other: "OffsetRange") -> "OffsetRange":
        """What both cover; empty, at the later start, when they do not meet."""
        start = max(self.start, other.start)
        return OffsetRange(start, max(start, min(self.end, other.end)))

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"
