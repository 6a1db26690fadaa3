"""A member of a group."""

import msgspec

MEMBER_OVERHEAD_BYTES = 1_000
"""What a member costs besides its texts and bytes: the value, its place in dicts, its timer."""

PENDING_MEMBER_BYTES = 500
"""What an id costs that was given away and has not joined."""


class Protocol(msgspec.Struct, frozen=True):
    """One assignment strategy a member can work with; ``metadata`` is its subscription, in the strategy's own
    format."""

    name: str
    metadata: bytes


class Member(msgspec.Struct, frozen=True):
    """``join_ticket`` and ``sync_ticket`` are its requests that wait for an answer here. ``is_new``: it has joined
    for the first time and no generation began since. ``must_sync``: it was told the generation and has not synced
    yet."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    is_new: bool = False
    must_sync: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def supports(self, protocol_name: str) -> bool:
        for protocol in self.protocols:  # noqa: SIM110 - asked of every member at every join; any() takes three times as long
            if protocol.name == protocol_name:
                return True
        return False

    def metadata_of(self, protocol_name: str | None) -> bytes:
        """Empty when it does not know that protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


def protocols_bytes(protocols: tuple[Protocol, ...]) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


def member_bytes(member: Member) -> int:
    """What it is charged in memory and, about, in the log."""
    texts = 2 * len(member.member_id) + len(member.client_id) + len(member.client_host)
    return (
        MEMBER_OVERHEAD_BYTES
        + texts
        + len(member.instance_id or "")
        + protocols_bytes(member.protocols)
        + len(member.assignment)
    )
