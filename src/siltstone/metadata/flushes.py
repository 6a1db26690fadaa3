"""Defines the flushes of a node, under the key ``flush/<node id>``: a program asks the node to upload what it has
acknowledged, and the node answers when that is committed.

The question and the answer are entries of the metadata log, which every node follows, so a program that reaches only
the metadata and the bucket can ask. Questions are numbered, and an answer is for all numbers up to its own, so a node
that is asked often uploads once for many questions.

The value of the key is a msgpack array: [version, asked, answered].

A node that was stopped cleanly has no record left in its log. It says so under the key ``empty-log/<node id>``, whose
value is its node epoch in decimal digits, so nobody waits for an answer of its process.
"""

import msgspec

from siltstone.metadata.commands import Command, PutKey
from siltstone.metadata.entities import NodeMetadata, NodeState
from siltstone.metadata.image import ImageView

FLUSH_VERSION = 1
FLUSH_PREFIX = "flush/"
EMPTY_LOG_PREFIX = "empty-log/"
"""It counts for one node epoch: the next start of the node uses the log again."""


class NodeFlushes(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of the last question and of the last answered question; 0: there was none."""

    version: int = FLUSH_VERSION
    asked: int = 0
    answered: int = 0


class AskFlush(Command[int], frozen=True):
    """→ the number of the question (int). The node is asked to commit everything that it has acknowledged. Refused with
    NodeEpochNotExist when the node is not registered, and NodeSuspended when it is not live."""

    node_id: int


class AnswerFlush(Command[None], frozen=True):
    """→ None. The node has committed everything that it had acknowledged at question ``number``. Idempotent. Refused
    for a process that is not the node's newest life, since it does not know what the newest life has acknowledged."""

    node_id: int
    node_epoch: int
    number: int


def put_empty_log(node_id: int, node_epoch: int) -> PutKey:
    """Returns the command by which a node says, at its end, that its log has no record."""
    return PutKey(f"{EMPTY_LOG_PREFIX}{node_id}", str(node_epoch).encode(), overwrite=True)


def may_log_hold_records(view: ImageView, node: NodeMetadata) -> bool:
    """Returns False for a node that never opened a stream, or was stopped cleanly; and for one whose log was replayed,
    and so emptied, by another node, or was given up by a person."""
    said = view.keys.get(f"{EMPTY_LOG_PREFIX}{node.node_id}")
    is_empty = not node.log_epoch or said == str(node.node_epoch).encode()
    return not is_empty and node.state is not NodeState.FAILED_OVER


def flush_key(node_id: int) -> str:
    return f"{FLUSH_PREFIX}{node_id}"


def encode_flushes(flushes: NodeFlushes) -> bytes:
    return msgspec.msgpack.encode(flushes)


def flushes_of(view: ImageView, node_id: int) -> NodeFlushes:
    """Raises msgspec.ValidationError for a value of another version."""
    value = view.keys.get(flush_key(node_id))
    if value is None:
        return NodeFlushes()
    found = msgspec.msgpack.decode(value, type=NodeFlushes)
    if found.version != FLUSH_VERSION:
        raise msgspec.ValidationError(
            f"flushes of version {found.version}; this program reads {FLUSH_VERSION}"
        )
    return found
