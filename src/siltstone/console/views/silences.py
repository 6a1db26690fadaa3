"""When nodes were silent, and how each silence ended: by the node's return, its next start, or a failover. Pure.

A silence begins with the last beat of the node, where the lease board still has it, and otherwise with its fence in the
metadata. It ends when the node, or another in its place, serves its partitions again. What a console sees
itself is known to a second. The log of the metadata has earlier silences, and times of its own only where an object was
committed or a job ran: a silence from there is *rough*.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from siltstone.metadata.entities import NO_NODE, NodeMetadata, NodeState
from siltstone.metadata.history import UNKNOWN_TIME_MS, known_time_ms
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.records import FailoverClaimed, NodeFenced, NodeRegistered, NodeResumed

SILENCES_MAX = 200
"""The newest ones are kept: a node that fails every hour has a week of them."""

NOT_YET = 0


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """``until_ms``: NOT_YET while it lasts. ``ended``: how it ended, in words. ``leads``: the partitions that the node
    led when it began; 0 where that is not known."""

    node_id: int
    node_epoch: int
    from_ms: int
    until_ms: int = NOT_YET
    ended: str = ""
    claimed_by: int = NO_NODE
    leads: int = 0
    is_rough: bool = False

    def seconds(self, now_ms: int) -> float:
        return max(0, (self.until_ms or now_ms) - self.from_ms) / 1000


class SilenceBook:
    """Silences in the order in which they began. ``silence_from`` says since when a node has been silent, by its last
    beat; None if that is not known."""

    def __init__(
        self, silence_from: Callable[[int], int | None] = lambda _: None, *, is_rough: bool = False
    ) -> None:
        self._silence_from = silence_from
        self._is_rough = is_rough
        self._lasting: dict[int, Silence] = {}
        self._ended: list[Silence] = []

    def __iter__(self) -> Iterator[Silence]:
        found = [*self._ended, *self._lasting.values()]
        return iter(sorted(found, key=lambda each: (each.from_ms, each.node_id)))

    def begins(self, node_id: int, node_epoch: int, now_ms: int, leads: int = 0) -> None:
        if node_id not in self._lasting:
            since_ms = self._silence_from(node_id)
            self._lasting[node_id] = Silence(
                node_id=node_id,
                node_epoch=node_epoch,
                from_ms=now_ms if since_ms is None else min(since_ms, now_ms),
                leads=leads,
                is_rough=self._is_rough,
            )

    def claimed(self, node_id: int, by: int) -> None:
        if node_id in self._lasting and by != NO_NODE:
            self._lasting[node_id] = replace(self._lasting[node_id], claimed_by=by)

    def ends(self, node_id: int, now_ms: int, how: str) -> None:
        if (lasting := self._lasting.pop(node_id, None)) is not None:
            self._ended.append(replace(lasting, until_ms=max(now_ms, lasting.from_ms), ended=how))
            del self._ended[:-SILENCES_MAX]

    def failed_over(self, node_id: int, now_ms: int) -> None:
        by = self._lasting[node_id].claimed_by if node_id in self._lasting else NO_NODE
        self.ends(
            node_id,
            now_ms,
            "another process replayed its log" if by == NO_NODE else f"node {by} replayed its log",
        )


class SeenSilences:
    """The silences that a process sees while it follows the metadata."""

    def __init__(self, silence_from: Callable[[int], int | None]) -> None:
        self._book = SilenceBook(silence_from)
        self._image = MetadataImage()

    def __iter__(self) -> Iterator[Silence]:
        return iter(self._book)

    def add(self, image: MetadataImage, now_ms: int) -> None:
        """Takes the states of the nodes of a newer image."""
        before, self._image = self._image, image
        if image.nodes.is_unchanged_from(before.nodes):
            return
        for node in image.nodes.values():
            self._add(before.nodes.get(node.node_id), node, before.leader_counts.get(node.node_id, 0), now_ms)

    def _add(self, before: NodeMetadata | None, node: NodeMetadata, leads: int, now_ms: int) -> None:
        book = self._book
        if node.state is NodeState.LIVE:
            is_same_life = before is not None and before.node_epoch == node.node_epoch
            book.ends(node.node_id, now_ms, "it returned" if is_same_life else "it was started again")
            return
        if node.state is NodeState.FAILED_OVER:
            book.failed_over(node.node_id, now_ms)
            return
        if before is None or before.state in (NodeState.LIVE, NodeState.FENCED):
            book.begins(node.node_id, node.node_epoch, now_ms, leads)
        book.claimed(node.node_id, node.claimed_by)


def logged_silences(entries: Iterable[tuple[int, LogEntry]]) -> list[Silence]:
    """Returns the silences that the log of the metadata still has."""
    book = SilenceBook(is_rough=True)
    replaying: set[int] = set()
    known_ms = UNKNOWN_TIME_MS
    for _, entry in entries:
        known_ms = max(known_ms, *map(known_time_ms, entry.records), UNKNOWN_TIME_MS)
        for record in entry.records:
            match record:
                case NodeFenced():
                    book.begins(record.node_id, record.node_epoch, known_ms)
                case NodeResumed():
                    book.ends(record.node_id, known_ms, "it returned")
                case NodeRegistered(failover=True):
                    replaying.add(record.node_id)
                case NodeRegistered():
                    replaying.discard(record.node_id)
                    book.ends(record.node_id, known_ms, "it was started again")
                case FailoverClaimed(by=by) if by != NO_NODE:
                    book.claimed(record.node_id, by)
                case FailoverClaimed() if record.node_id in replaying:
                    replaying.discard(record.node_id)
                    book.failed_over(record.node_id, known_ms)
    # An entry before the first known time: the silence was over then, or lasts since.
    return [replace(each, from_ms=each.from_ms or each.until_ms or known_ms) for each in book if known_ms]


def all_silences(logged: Iterable[Silence], seen: Iterable[Silence]) -> list[Silence]:
    """Returns the newest silences, the newest first. What was seen counts more than what the log says of the same life
    of a node."""
    exact = list(seen)
    known = {(each.node_id, each.node_epoch) for each in exact}
    found = [*exact, *(each for each in logged if (each.node_id, each.node_epoch) not in known)]
    return sorted(found, key=lambda each: (-each.from_ms, each.node_id))[:SILENCES_MAX]
