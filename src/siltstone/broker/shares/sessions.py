"""Share sessions: a node remembers which partitions a member of a share group fetches. Pure.

    epoch   the client
    0       begins a session and names its partitions
    e > 0   continues it; e counts its requests, and after the largest comes 1
    -1      ends its session; its records are released

A session belongs to one connection and ends with it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import Stale

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
SESSION_PARTITIONS_MAX = 100_000
"""Partitions in all sessions of a node together, as in fetch sessions."""

MemberKey: TypeAlias = tuple[str, str]
"""Group and member."""
SharedPartition: TypeAlias = tuple[bytes, int]
"""Topic id and index."""


class ShareSessionRefused(Stale):
    """The request does not fit its session. The client begins a new one."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"share session refused: {code.name}; begin a new one")
        self.code = code


class ShareSession(msgspec.Struct, eq=False):
    """``partitions`` in the order in which they are looked at: one that had records is the last one next time."""

    connection_id: int
    next_epoch: int = 1
    partitions: OrderedDict[SharedPartition, None] = msgspec.field(default_factory=OrderedDict)


class ShareSessions:
    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: MemberKey, connection_id: int) -> ShareSession:
        """Begins a new session in place of an older one of the member. Raises ShareSessionRefused."""
        if len(self._sessions) >= self._sessions_max:
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.end(key)
        session = self._sessions[key] = ShareSession(connection_id)
        return session

    def resume(self, key: MemberKey, epoch: int) -> ShareSession:
        """Returns the session whose next, or last, request this is. Raises ShareSessionRefused."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.next_epoch:
            raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.next_epoch = epoch + 1 if epoch < EPOCH_MAX else 1
        return session

    def change(
        self, session: ShareSession, added: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]
    ) -> None:
        """Raises ShareSessionRefused if the sessions of the node would hold too much."""
        before = len(session.partitions)
        for partition in forgotten:
            session.partitions.pop(partition, None)
        for partition in added:
            session.partitions.setdefault(partition)
        self._partition_count += len(session.partitions) - before
        if self._partition_count > SESSION_PARTITIONS_MAX:
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def end(self, key: MemberKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def of_connection(self, connection_id: int) -> list[MemberKey]:
        return [key for key, session in self._sessions.items() if session.connection_id == connection_id]
