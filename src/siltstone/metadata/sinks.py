"""The record of a sink, under the key ``spark-sink/<sink id>``, and the two commands that write it.

A *sink* writes batches of a data pipeline into topics, each exactly once. Its record is the newest batch: first an
*intent* with all that is needed to finish it, after the last write *done*. Spark repeats a batch that it has no answer
of; the record says whether the batch stands, and an intent is finished with the parts that it names, not with those of
the repetition, whose rows may differ.

The value of the key is a msgpack array:

    [version, mode, query id, batch id, state, driver, producer id, manifest key, manifest CRC-32C, begun ms, schema,
     [[stream id, next sequence, start offset], ...]]

``next sequence`` is the producer's next sequence number in the stream: before the batch while the state is INTENT,
after it when it is DONE. ``start offset`` is the stream's high watermark when the batch began. The commands are decided
in ``decisions.sinks``.
"""

import re
from enum import IntEnum

import msgspec

from siltstone.metadata.commands import Command
from siltstone.metadata.image import ImageView
from siltstone.model.limits import HOUR_MS

SINK_VERSION = 1
SINK_PREFIX = "spark-sink/"
SINKS_MAX = 10_000
"""A record of a sink stays until it is forgotten, and each takes room in every image."""

STAGED_MS_MAX = 12 * HOUR_MS
"""A batch whose parts are older is refused: the sweep deletes them at STAGING_KEPT_MS."""

STAGING_KEPT_MS = 24 * HOUR_MS

STAGING_PREFIX = "staging/"
"""Begins the keys of what sinks stage in a bucket."""

SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class SinkState(IntEnum):
    INTENT = 1
    DONE = 2
    ABANDONED = 3


class SinkTarget(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the sink stands in the data stream of a partition."""

    stream_id: int
    next_sequence: int
    start_offset: int


class SinkBatch(msgspec.Struct, frozen=True, array_like=True):
    """The newest batch of a sink. ``driver`` is a random token of the process that began or resumed the batch last;
    only that process may end it. ``producer_id`` −1: the sink has written nothing yet."""

    mode: str
    query_id: str
    batch_id: int
    state: SinkState
    driver: str
    producer_id: int
    manifest: str
    manifest_crc: int
    begun_ms: int
    schema: str
    targets: tuple[SinkTarget, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state is not SinkState.INTENT


class BeginSinkBatch(Command[SinkBatch], frozen=True):
    """→ SinkBatch, what stands. If ``batch`` is new, it stands as an intent, with the producer id and the sequences of
    the batch before. If its batch id stands already, the answer is what stands, and an unfinished one is this driver's
    from now on. Refused with SinkBatchBehind, SinkOfAnotherQuery, SinkBatchUnfinished, SinkChanged, SinkPartsTooOld,
    TooManySinks."""

    sink_id: str
    batch: SinkBatch
    staged_ms: int


class CommitSinkBatch(Command[None], frozen=True):
    """→ None. The batch is done; ``targets`` have the sequences after it. Idempotent: whether the batch is done already
    is asked before anything else. Refused with SinkTakenOver when another driver has resumed the batch."""

    sink_id: str
    batch_id: int
    driver: str
    targets: tuple[SinkTarget, ...]
    is_abandoned: bool = False


def batch_folder(sink_id: str, batch_id: int) -> str:
    """Begins the keys of what is staged for a batch, with a slash at its end."""
    return f"{STAGING_PREFIX}{sink_id}/{batch_id}/"


def encode_sink(batch: SinkBatch) -> bytes:
    return msgspec.msgpack.encode((SINK_VERSION, *msgspec.structs.astuple(batch)))


def decode_sink(value: bytes) -> SinkBatch:
    """Raises msgspec.ValidationError for a value of another version."""
    version, *fields = msgspec.msgpack.decode(value)
    if version != SINK_VERSION:
        raise msgspec.ValidationError(
            f"a sink's record of version {version}; this program reads {SINK_VERSION}"
        )
    return msgspec.convert(fields, SinkBatch)


def sink_of(view: ImageView, sink_id: str) -> SinkBatch | None:
    """What stands for the sink; None if it has written nothing."""
    value = view.keys.get(f"{SINK_PREFIX}{sink_id}")
    return None if value is None else decode_sink(value)


def sinks_of(view: ImageView) -> dict[str, SinkBatch]:
    """All sinks by id, in the order of ids."""
    return {
        key.removeprefix(SINK_PREFIX): decode_sink(value)
        for key, value in sorted(view.keys.items())
        if key.startswith(SINK_PREFIX)
    }
