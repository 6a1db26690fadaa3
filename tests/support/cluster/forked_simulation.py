"""A simulated cluster whose metadata log loses its newest entries and continues with others, as when a standby without
them is promoted (P09, P10). Moves and maintenance continue with the forked log, nodes are started again by
their supervisors, and after a minute the newest copy is restored.

Nothing that a client was told may be lost by that: the nodes that had read the lost entries stop, and tell the others
by the identities of their write-ahead logs and by marks in the bucket. What the documents tell an operator to do is
done when the copy is restored: marks of the other history, and objects whose ids the copy has not given out, are moved
away (docs/decisions/0010).
"""

from collections.abc import Callable
from pathlib import Path

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.errors import CorruptData
from siltstone.model.objects import object_id_of_key
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket, key_of_mark, marks_in
from support.cluster.cluster_simulation import ClusterSimulation

ENTRIES_LOST_MAX = 12
NOTICE_MS_MAX = 10_000
FORKED_ACTIONS = 12
PAUSE_MS = 5_000


class LogCopy:
    """The content of a log at one moment."""

    def __init__(self, log: MemoryLog) -> None:
        self.entries, self.dropped = list(log._entries), log._dropped
        self.head, self.snapshot = log._head, log._snapshot

    def restore_to(self, log: MemoryLog) -> None:
        log._entries, log._dropped = list(self.entries), self.dropped
        log._head, log._snapshot = self.head, self.snapshot

    def append_id_at(self, version: int) -> str | None:
        if self.dropped < version <= self.head.version:
            return link_of(self.entries[version - self.dropped - 1]).append_id
        return None


class ForkedSimulation(ClusterSimulation):
    def __init__(self, seed: int, folder: Path, *, actions: int = 10) -> None:
        super().__init__(seed, folder, actions=actions)

    async def _disaster(self) -> None:
        await self._heal()
        await self._until(self._all_have_read_everything, "all nodes have read the metadata to its end")
        copy = LogCopy(self.log)
        self._lose_entries()
        await self._until(lambda: not any(node.hears for node in self.nodes), "no node serves any more")
        for _ in range(FORKED_ACTIONS):
            action = self.rng.choice([self._move, self._compact, self._maintain, self._sweep])
            self._as_a_stranger(action)
            await self._passes(PAUSE_MS)
            assert not any(node.hears for node in self.nodes), "a node serves with the forked log"
        self._restore(copy)
        await self._heal()

    def _all_have_read_everything(self) -> bool:
        lives = [node.life for node in self.nodes]
        return all(
            life is not None and life.engine is not None
            and life.engine._metadata.image.version == self.log.head().version
            for life in lives
        )  # fmt: skip

    def _lose_entries(self) -> None:
        snapshot = self.log.snapshot_version() or 0
        kept = len(self.log._entries)
        left_max = self.log.head().version - max(snapshot, self.log._dropped)
        lost = min(self.rng.randrange(1, ENTRIES_LOST_MAX + 1), left_max, kept - 1)
        assert lost > 0
        del self.log._entries[-lost:]
        last = link_of(self.log._entries[-1]).append_id
        self.log._head = LogPosition(self.log.head().version - lost, last)
        self.count("entries lost", lost)
        if (
            self.rng.random() < 0.5
        ):  # the other history is as long as the lost one, or longer, before anybody looks
            for _ in range(self.rng.randrange(1, 2 * ENTRIES_LOST_MAX)):
                self._move()

    def _as_a_stranger(self, action: Callable[[], None]) -> None:
        """A process that opens the store now."""
        try:
            action()
        except MetadataOlderThanBucket as refusal:
            self.count("refused", str(refusal)[:100])
        except CorruptData as refusal:
            self.count("refused", f"{type(refusal).__name__}")

    def _sweep(self) -> None:
        report = sweep(self._maintenance(), 0)
        self.count("swept", report)

    def _restore(self, copy: LogCopy) -> None:
        copy.restore_to(self.log)
        image = self._maintenance().metadata.image
        foreign = [
            key_of_mark(mark) for mark in marks_in(self.bucket)
            if mark.version > copy.head.version or copy.append_id_at(mark.version) not in (None, mark.append_id)
        ]  # fmt: skip
        strays = [
            summary.key for summary in self.bucket.list()
            if (object_id_of_key(summary.key) or 0) >= image.next_object_id
        ]  # fmt: skip
        self.bucket.delete([*foreign, *strays])
        self.count(
            "restored", f"{len(foreign)} marks and {len(strays)} objects of the other history moved away"
        )
