"""Fetch sessions (KIP-227): the broker remembers what a consumer fetches, and requests carry only changes. Pure.

    session id  epoch   the client
    0           0       fetches everything and asks for a session
    0           -1      fetches everything without a session
    n           -1      ends session n and fetches everything
    n           0       ends session n and begins a new one
    n           e > 0   fetches what is in session n after the changes it names; e counts its requests

A request whose epoch is not the next one is refused; the client then begins a new session with a full request. A
session ends when a change leaves it without partitions.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import Stale
from siltstone.model.limits import (
    FETCH_SESSION_IDLE_MS_MIN,
    FETCH_SESSION_PARTITIONS_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
)

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

PartitionKey = tuple[str, bytes, int]
"""Topic name (empty from version 13 on), topic id (zeros before), index."""


class SessionRefused(Stale):
    """The request does not fit its session. The client begins a new one."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"fetch session refused: {code.name}; begin a new one")
        self.code = code


class SessionPartition(msgspec.Struct, frozen=True):
    """A partition as the client named it last."""

    key: PartitionKey
    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class SentState(msgspec.Struct, frozen=True):
    """The offsets of a partition that the client was sent last."""

    high_watermark: int
    log_start_offset: int
    last_stable_offset: int = -1


class FetchSession:
    """``uses_topic_ids``: all keys of the session have topic ids; otherwise all have topic names."""

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: float) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.next_epoch = 1
        self.used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, SessionPartition] = OrderedDict()
        self._sent: dict[PartitionKey, SentState] = {}

    def change(self, asked: Iterable[SessionPartition], forgotten: Iterable[PartitionKey]) -> None:
        for partition in asked:
            self.partitions[partition.key] = partition
        for key in forgotten:
            self.partitions.pop(key, None)
            self._sent.pop(key, None)

    def is_news(self, key: PartitionKey, state: SentState, *, has_data: bool) -> bool:
        """Returns whether the partition belongs in the response. One with data moves to the end of the session's order,
        so that the next response begins with others."""
        if key not in self.partitions:
            return True  # a later request has changed the session while this one waited
        changed = self._sent.get(key) != state
        self._sent[key] = state
        if has_data:
            self.partitions.move_to_end(key)
        return changed or has_data

    def forget_state(self, key: PartitionKey) -> None:
        """After an error the next response is to have the partition, whatever its state."""
        self._sent.pop(key, None)


class FetchSessions:
    """The sessions of a broker. They are bounded by their number, by the number of partitions in all of them, and by
    the length of topic names."""

    def __init__(self, sessions_max: int, partitions_max: int = FETCH_SESSION_PARTITIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._partition_count = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The least recently used session is first."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: float) -> FetchSession:
        """Returns the session whose next request this is. Raises SessionRefused."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.next_epoch:
            raise SessionRefused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_topic_ids != session.uses_topic_ids:
            raise SessionRefused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.next_epoch = epoch + 1 if epoch < EPOCH_MAX else 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def change(
        self, session: FetchSession, asked: Sequence[SessionPartition], forgotten: Iterable[PartitionKey]
    ) -> None:
        """Ends the session when it is left without partitions, and when it would hold too much; then raises
        SessionRefused."""
        before = len(session.partitions)
        session.change(asked, forgotten)
        self._partition_count += len(session.partitions) - before
        is_too_much = self._partition_count > self._partitions_max or not _can_be_kept(asked)
        if is_too_much or not session.partitions:
            self.end(session.session_id)
        if is_too_much:
            raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def begin(
        self, new_id: int, asked: Sequence[SessionPartition], uses_topic_ids: bool, now_ms: float
    ) -> FetchSession | None:
        """Returns a new session. None when there is no room: the client then fetches without a session."""
        if not asked or new_id in self._sessions or not _can_be_kept(asked):
            return None
        if not self._has_room_for(len(asked), now_ms):
            return None
        session = self._sessions[new_id] = FetchSession(new_id, uses_topic_ids, now_ms)
        session.change(asked, ())
        self._partition_count += len(session.partitions)
        return session

    def _has_room_for(self, partitions: int, now_ms: float) -> bool:
        """Ends sessions that were idle for long until the new one fits; none if the new one would not fit alone."""
        if partitions > self._partitions_max:
            return False
        while (
            len(self._sessions) >= self._sessions_max
            or self._partition_count + partitions > self._partitions_max
        ):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_ms < FETCH_SESSION_IDLE_MS_MIN:
                return False
            self.end(oldest.session_id)
        return True


def _can_be_kept(asked: Iterable[SessionPartition]) -> bool:
    return all(len(partition.key[0]) <= TOPIC_NAME_CHARACTERS_MAX for partition in asked)
