"""MetadataClient follows the metadata log, decides commands and appends their records. Synchronous and thread-safe.

A command is answered only from an image that was at the head of the log. When records were written, the
compare-and-append proves that. When none were (a refusal, or a command that changes nothing), the client compares the
image with the head of the log. Commands executed together are decided one after another on one draft and written by
one append. Next: ``store.port`` (the log), ``service`` (the client for an event loop).
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from siltstone.metadata.applying import apply_records
from siltstone.metadata.commands import Command
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.log_entry import LogEntry, append_id_of, decode_entry, encode_entry
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.store.port import (
    AppendUncertain,
    LogEndsTooEarly,
    LogTruncated,
    LogUnavailable,
    MetadataLog,
    VersionMovedOn,
)
from siltstone.model.errors import Unavailable
from siltstone.model.limits import SNAPSHOT_INTERVAL_RECORDS
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token

R = TypeVar("R")
logger = logging.getLogger(__name__)

ENTRIES_PER_READ = 1_000
APPEND_ATTEMPTS_MAX = 8
BACKOFF_MS_MIN = 20
BACKOFF_MS_MAX = 2_000


class CommitUnknown(Unavailable):
    """The outcome of an append is unknown. The caller executes the commands again (they are idempotent) and deletes
    nothing until it has an answer (rule 5)."""


class MetadataClient:
    def __init__(
        self,
        log: MetadataLog,
        clock: Clock,
        rng: Random,
        *,
        snapshot_interval_records: int = SNAPSHOT_INTERVAL_RECORDS,
    ) -> None:
        """Loads the image; from now on the client owns the log and closes it. Raises Unavailable, CorruptData."""
        self._log = log
        self._clock = clock
        self._rng = rng
        self._snapshot_interval_records = snapshot_interval_records
        self._records_since_snapshot = 0
        self._snapshot_version = 0
        self._lock = threading.RLock()
        self._snapshot_lock = threading.Lock()
        self._image = MetadataImage()
        self._load()
        self.refresh()

    @property
    def image(self) -> MetadataImage:
        """The newest image that this client has read or written."""
        return self._image

    def refresh(self) -> MetadataImage:
        """Reads the log to its head and returns the image. Raises Unavailable, CorruptData."""
        with self._lock:
            while self._read_on():
                pass
            return self._image

    def execute(self, command: Command[R]) -> R:
        """Returns the command's result. Raises its Refusal, CommitUnknown, LogUnavailable."""
        (answer,) = self.execute_all([command])
        if isinstance(answer, Refusal):
            raise answer
        return cast(R, answer)

    def execute_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Returns for each command its result or its Refusal, in order. Raises CommitUnknown, LogUnavailable."""
        answers = self.append_all(commands)
        self.save_snapshot_if_due()
        return answers

    def append_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Like ``execute_all``, but saves no snapshot: the caller has to call ``save_snapshot_if_due``."""
        with self._lock:
            while True:
                draft = ImageDraft(self._image)
                answers, records = self._decide_all(draft, commands)
                if self._is_current(records):
                    if records:
                        self._took(draft.frozen(self._image.version + 1), len(records))
                    return answers
                self.refresh()

    @property
    def snapshot_is_due(self) -> bool:
        return self._records_since_snapshot >= self._snapshot_interval_records

    def save_snapshot_if_due(self) -> bool:
        """Saves a snapshot when ``snapshot_interval_records`` records were applied since the last one, unless another
        process has saved it. Returns whether this call saved one.

        An unavailable log is logged, not raised: nothing depends on this snapshot, and the next one replaces it.
        """
        if not self.snapshot_is_due:
            return False
        if not self._snapshot_lock.acquire(blocking=False):
            return False
        try:
            return self._save_snapshot()
        except Unavailable as error:
            logger.warning("the snapshot of the metadata could not be saved: %s", error)
            return False
        finally:
            self._snapshot_lock.release()

    def close(self) -> None:
        self._log.close()

    def _decide_all(
        self, draft: ImageDraft, commands: Sequence[Command[Any]]
    ) -> tuple[list[Any], list[Record]]:
        now_ms = self._clock.now_ms()
        answers: list[Any] = []
        records: list[Record] = []
        for command in commands:
            decision = decide(draft, command, now_ms)
            if isinstance(decision, Refusal):
                answers.append(decision)
                continue
            apply_records(draft, decision.records)
            records += decision.records
            answers.append(decision.result)
        return answers, records

    def _is_current(self, records: list[Record]) -> bool:
        """Appends the records; without records, looks up the head of the log. False when another process appended
        after this image, so the commands have to be decided again."""
        if not records:
            return self._log.head_version() == self._image.version
        entry = LogEntry(random_token(self._rng), tuple(records))
        return self._append(entry)

    def _append(self, entry: LogEntry) -> bool:
        """Returns False when another process appended first. The same entry is appended under the same expected
        version until the outcome is known: of all these attempts at most one can succeed. Raises CommitUnknown,
        LogUnavailable."""
        encoded = encode_entry(entry)
        uncertain = False
        for attempt in range(APPEND_ATTEMPTS_MAX):
            try:
                self._log.append(encoded, self._image.version)
            except VersionMovedOn:
                return uncertain and self._is_next(entry.append_id)
            except AppendUncertain:
                uncertain = True
                self._back_off(attempt)
            except LogUnavailable:
                self._back_off(attempt)
            else:
                return True
        if uncertain:
            raise CommitUnknown(
                f"the outcome of an append after version {self._image.version} of the metadata log is still unknown "
                f"after {APPEND_ATTEMPTS_MAX} attempts; execute the commands again"
            )
        raise LogUnavailable(
            f"all {APPEND_ATTEMPTS_MAX} attempts to append to the metadata log failed; try again later"
        )

    def _is_next(self, append_id: str) -> bool:
        """Whether the log's entry after the image has this append id. Raises CommitUnknown when that entry was
        dropped already."""
        try:
            ((_, encoded),) = self._log.read_after(self._image.version, 1)
        except LogTruncated as error:
            raise CommitUnknown(
                f"entry {self._image.version + 1} of the metadata log, which would show the outcome of an append, was "
                "dropped; execute the commands again"
            ) from error
        return append_id_of(encoded) == append_id

    def _back_off(self, attempt: int) -> None:
        ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
        self._clock.block_ms(ceiling_ms * (0.5 + self._rng.random() / 2))

    def _read_on(self) -> bool:
        """Reads up to ENTRIES_PER_READ entries, or the snapshot. Returns whether there may be more to read."""
        try:
            entries = self._log.read_after(self._image.version, ENTRIES_PER_READ)
        except LogTruncated:
            if not self._load():
                raise LogEndsTooEarly(
                    f"entries after version {self._image.version} of the metadata log were dropped and no snapshot "
                    "contains them; restore the database from a backup"
                ) from None
            return True
        if entries:
            self._apply(entries)
        return len(entries) == ENTRIES_PER_READ

    def _apply(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Applies all entries to one draft. A starting client replays tens of thousands of them; with one draft each
        shard of the image is copied once, not once for each entry."""
        draft = ImageDraft(self._image)
        record_count = 0
        for _, encoded in entries:
            records = decode_entry(encoded).records
            apply_records(draft, records)
            record_count += len(records)
        self._took(draft.frozen(self._image.version + len(entries)), record_count)

    def _load(self) -> bool:
        """Loads the snapshot if it is newer than the image; returns whether it was. Starts over when another process
        replaces the snapshot while it is being read."""
        for _ in range(APPEND_ATTEMPTS_MAX):
            snapshot = self._log.load_snapshot()
            if snapshot is None or snapshot.version <= self._image.version:
                return False
            try:
                self._image = decode_snapshot(snapshot.version, snapshot.chunks)
            except LogTruncated:
                continue
            self._snapshot_version = snapshot.version
            self._records_since_snapshot = 0
            return True
        raise LogUnavailable(
            f"the metadata snapshot was replaced {APPEND_ATTEMPTS_MAX} times while it was being read; try again later"
        )

    def _took(self, image: MetadataImage, record_count: int) -> None:
        self._image = image
        self._records_since_snapshot += record_count

    def _save_snapshot(self) -> bool:
        with self._lock:
            image = self._image
            self._records_since_snapshot = 0
        newest = self._log.snapshot_version() or 0
        if newest > self._snapshot_version:
            self._snapshot_version = newest
            return False
        self._log.save_snapshot(image.version, encode_snapshot(image))
        self._snapshot_version = image.version
        return True
