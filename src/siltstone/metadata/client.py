"""MetadataClient follows the metadata log, decides commands and appends their records. Synchronous and thread-safe.

A command is answered only from an image that was at the head of the log. When records were written, the
compare-and-append proves that. When none were (a refusal, or a command that changes nothing), the client compares the
image with the head of the log. Commands executed together are decided one after another on one draft and written by
one append. Every entry that is read has to follow the one before it (``log_entry.next_position``). Next:
``store.port`` (the log), ``service`` (the client for an event loop).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from siltstone.foundation.quantity_words import counted
from siltstone.metadata.applying import apply_records
from siltstone.metadata.commands import Command
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.log_entry import (
    LogEntry,
    LogPosition,
    decode_entry,
    encode_entry,
    link_of,
    next_position,
    refuse_fork,
)
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    AppendUncertain,
    LogEndsTooEarly,
    LogNews,
    LogTruncated,
    LogUnavailable,
    MetadataLog,
    VersionMovedOn,
)
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.model.limits import SNAPSHOT_INTERVAL_RECORDS
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token

R = TypeVar("R")
Executed = Callable[[Command[Any], MetadataImage, MetadataImage], None]
logger = logging.getLogger(__name__)

ENTRIES_PER_READ = 1_000
APPEND_ATTEMPTS_MAX = 8
APPEND_MS_MAX = 15_000
"""After this time no further attempt is started. All eight attempts take five seconds with a database that refuses at
once; each takes ten seconds with a database that does not answer."""
BACKOFF_MS_MIN = 20
BACKOFF_MS_MAX = 2_000

RIVALS_REMEMBERED_MS = 1_000
"""For so long after it met entries of other processes, a process takes a turn before it appends."""


CLOCK_OFFSET_WARNING_MS = 1_000
"""A larger difference between this machine's clock and the log's, or a larger change of it, is logged."""

CLOCK_OFFSET_MS_MAX = 30_000
"""From this difference on no node is registered, since the times in its records and its clients' answers would be
wrong, and no maintenance is run (rule 15)."""


class ClockTooFarOff(InvalidRequest):
    """The machine's clock differs too much from the clock of the metadata log."""


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
        self._warned_offset_ms = 0
        self._rivals_until_ms = 0.0
        self._lock = threading.RLock()
        self._snapshot_lock = threading.Lock()
        self._on_executed: list[Executed] = []
        self._image = MetadataImage()
        self._load()
        self.refresh()

    @property
    def read_only_note(self) -> str:
        """Why commands that change something are refused with LogReadOnly; empty if they are not."""
        return self._log.read_only_note

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

    def add_execution_listener(self, listener: Executed) -> None:
        """Calls ``listener`` after each command of ``execute`` and ``execute_all`` that was not refused, with the
        command, an image before it, and one with its effect."""
        self._on_executed.append(listener)

    def execute_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Returns for each command its result or its Refusal, in order. Raises CommitUnknown, LogUnavailable."""
        before = self.image
        answers = self.append_all(commands)
        self.save_snapshot_if_due()
        after = self.image
        for listener in self._on_executed:
            for command, answer in zip(commands, answers, strict=True):
                if not isinstance(answer, Refusal):
                    listener(command, before, after)
        return answers

    def append_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Like ``execute_all``, but saves no snapshot: the caller has to call ``save_snapshot_if_due``."""
        with self._lock:
            while True:
                # Why a turn only after a lost race: it costs a round trip, and mostly one process writes.
                if self._clock.monotonic_ms() < self._rivals_until_ms and self._log.take_turn():
                    self._look_for_rivals()
                draft = ImageDraft(self._image)
                answers, records = self._decide_all(draft, commands)
                if not records and self._log.head() == self._image.position:
                    return answers
                if records and (head := self._append(records)) is not None:
                    self._took(draft.frozen(head.version, head.append_id), len(records))
                    return answers
                # Why decide again and not lock the log: a lock needs an end when its holder dies. A decision costs
                # microseconds, and only the loser of a race repeats it.
                self._met_rivals()
                self._catch_up()

    def _look_for_rivals(self) -> None:
        """Reads what others have appended before this turn. A read that fails is no reason not to try to append."""
        before = self._image.version
        with suppress(LogUnavailable):
            self.refresh()
        if self._image.version > before:
            self._met_rivals()

    def _met_rivals(self) -> None:
        self._rivals_until_ms = self._clock.monotonic_ms() + RIVALS_REMEMBERED_MS

    @property
    def snapshot_is_due(self) -> bool:
        return not self.read_only_note and self._records_since_snapshot >= self._snapshot_interval_records

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

    def listen(self, on_news: Callable[[], None]) -> LogNews | None:
        """See ``MetadataLog.listen``."""
        return self._log.listen(on_news)

    def now_ms(self) -> int:
        """Returns the time by which commands are decided: that of the log's clock, which all machines share."""
        return self._clock.now_ms() + self.clock_offset_ms

    @property
    def clock_offset_ms(self) -> int:
        """How far the clock of the log is ahead of this machine's."""
        offset_ms = self._log.clock_offset_ms()
        if abs(offset_ms - self._warned_offset_ms) >= CLOCK_OFFSET_WARNING_MS:
            self._warned_offset_ms = offset_ms
            logger.warning("%s", clock_difference(offset_ms))
        return offset_ms

    def append_id_at(self, version: int) -> str | None:
        """Returns the append id of the entry ``version``, which is not beyond the image; None when the log does not
        have that entry any more. Raises Unavailable, CorruptData."""
        with self._lock:
            if version == self._image.version:
                return self._image.append_id
            try:
                entries = self._log.read_after(version - 1, 1) if version else []
            except LogTruncated:
                return None
            return link_of(entries[0][1]).append_id if entries else None

    def close(self) -> None:
        self._log.close()

    def _decide_all(
        self, draft: ImageDraft, commands: Sequence[Command[Any]]
    ) -> tuple[list[Any], list[Record]]:
        now_ms = self.now_ms()
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

    def _append(self, records: Sequence[Record]) -> LogPosition | None:
        """Appends the records after the image; returns the new head, or None when another process appended first, so
        the commands have to be decided again. The same entry is appended after the same position until the outcome is
        known: of all these attempts at most one can succeed. Raises CommitUnknown, LogUnavailable."""
        expected = self._image.position
        entry = LogEntry(random_token(self._rng), tuple(records), expected.append_id)
        encoded = encode_entry(entry)
        uncertain = False
        begun_ms = self._clock.monotonic_ms()
        attempt = 0
        while attempt < APPEND_ATTEMPTS_MAX and self._clock.monotonic_ms() - begun_ms < APPEND_MS_MAX:
            try:
                return self._log.append(encoded, expected)
            except VersionMovedOn:
                if not uncertain:
                    return None
                with suppress(LogUnavailable):  # until it is read, the entry there may be this one
                    return self._found(entry)
            except AppendUncertain:
                uncertain = True
            except LogUnavailable:
                pass
            self._back_off(attempt)
            attempt += 1
        seconds = (self._clock.monotonic_ms() - begun_ms) / 1000
        if uncertain:
            raise CommitUnknown(
                f"the outcome of an append after version {expected.version} of the metadata log is still unknown "
                f"after {attempt} attempts in {seconds:.0f} s; execute the commands again"
            )
        raise LogUnavailable(
            f"{counted(attempt, 'attempt')} to append to the metadata log failed in {seconds:.0f} s; try again later"
        )

    def _found(self, entry: LogEntry) -> LogPosition | None:
        """Returns the position of the entry if it is the log's next one after the image, otherwise None. Raises
        CommitUnknown when the next one was dropped already, LogForked when it does not follow the image."""
        position = self._image.position
        try:
            entries = self._log.read_after(position.version, 1)
        except LogTruncated as error:
            raise CommitUnknown(
                f"entry {position.version + 1} of the metadata log, which would show the outcome of an append, was "
                "dropped; execute the commands again"
            ) from error
        for _, encoded in entries:
            head = next_position(position, link_of(encoded))
            return head if head.append_id == entry.append_id else None
        return None

    def _catch_up(self) -> None:
        """Reads what other processes have appended after the image. Raises LogForked if nothing was appended, but the
        head of the log differs from the image's position."""
        before = self._image.version
        if self.refresh().version == before:
            refuse_fork(self._log.head(), self._image.position)

    def _back_off(self, attempt: int) -> None:
        ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
        self._clock.block_ms(ceiling_ms * (0.5 + self._rng.random() / 2))

    def _read_on(self) -> bool:
        """Reads some entries, or the snapshot. Returns whether there may be more to read."""
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
        size_bytes = sum(len(encoded) for _, encoded in entries)
        return len(entries) == ENTRIES_PER_READ or size_bytes >= READ_BYTES_MAX

    def _apply(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Applies all entries to one draft. A starting client replays tens of thousands of them; with one draft each
        shard of the image is copied once, not once for each entry."""
        draft = ImageDraft(self._image)
        position = self._image.position
        record_count = 0
        for version, encoded in entries:
            draft.version = version
            entry = decode_entry(encoded)
            position = next_position(position, entry.link)
            apply_records(draft, entry.records)
            record_count += len(entry.records)
        self._took(draft.frozen(position.version, position.append_id), record_count)

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
        self._log.save_snapshot(image.position, encode_snapshot(image))
        self._snapshot_version = image.version
        return True


def clock_difference(offset_ms: int) -> str:
    side = "behind" if offset_ms > 0 else "ahead of"
    return (
        f"the clock of this machine is {abs(offset_ms)} ms {side} the clock of the metadata log; "
        "have both set by the network's time"
    )


def refuse_wrong_clock(offset_ms: int, consequence: str = "the node is not registered") -> None:
    """Raises ClockTooFarOff, which says the ``consequence``."""
    if abs(offset_ms) >= CLOCK_OFFSET_MS_MAX:
        raise ClockTooFarOff(f"{consequence}: {clock_difference(offset_ms)}")
