"""Defines the record of a sink, under the key ``spark-sink/<sink id>``, and the two commands that write it.

A *sink* writes batches of a data pipeline into topics, each exactly once. Its record has the newest batch: first as an
*intent*, with everything that is needed to finish the batch, and after the last write as *done*. Spark repeats a batch
if it does not know the outcome. The record then says whether the batch is done; an intent is finished with the parts
that it names, not with those of the repetition, whose rows may differ.

A batch of mode TRANSACTION is one transaction of the brokers. Its record has version 2, so a program that would relay
it without a transaction cannot read it. The value of the key is a msgpack array:

    [version, mode, query id, batch id, state, driver, producer id, manifest key, manifest CRC-32C, started ms, schema,
     [[stream id, next sequence, start offset], ...]]

``next sequence`` is the producer's next sequence number in the stream: before the batch while the state is INTENT,
after it when it is DONE. ``start offset`` is the stream's high watermark when the batch began. In mode TRANSACTION the
producer is that of the transaction that was started last, −1 when the batch is DONE, and all sequence numbers are 0.
The commands are decided in ``decisions.sinks``.
"""

import re
from enum import IntEnum

import msgspec

from siltstone.metadata.commands import Command, NewObject
from siltstone.metadata.image import ImageView
from siltstone.model.limits import HOUR_MS

SINK_VERSION = 1
SINK_VERSION_TRANSACTION = 2
SINK_PREFIX = "spark-sink/"
SINKS_MAX = 10_000
"""The most sinks of a store: a sink's record is kept until the sink is forgotten, and takes memory in every image."""

STAGED_MS_MAX = 12 * HOUR_MS
"""A batch whose parts are older than this is refused, because the sweep deletes them at STAGING_KEPT_MS."""

STAGING_KEPT_MS = 24 * HOUR_MS

STAGING_PREFIX = "staging/"
"""The keys of all objects that sinks stage in a bucket begin with it."""

RELAY = "relay"
OBJECTS = "objects"
TRANSACTION = "transaction"
"""The modes of a batch: its records are produced through the brokers; or the driver writes objects, without a broker,
and commits them; or its records are produced in one transaction."""
MODES = (RELAY, OBJECTS, TRANSACTION)

SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class SinkState(IntEnum):
    INTENT = 1
    DONE = 2
    ABANDONED = 3


class SinkTarget(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The next sequence number of a sink's producer in the data stream of a partition, and the offset at which the
    batch begins there."""

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
    """→ SinkBatch, the sink's newest batch after the command. If the id of ``batch`` is new, that is ``batch`` as an
    intent, with the producer id and the sequence numbers after the batch before. If the sink has a batch of that id
    already, the answer is that batch; if that batch is unfinished, it belongs to this driver from now on, in mode
    TRANSACTION with the producer of this driver. An unfinished
    batch of mode OBJECTS becomes one of mode RELAY if ``batch`` has that mode: none of its records are written yet,
    since its commit writes all of them. Refused with SinkBatchBehind, SinkOfAnotherQuery, SinkBatchUnfinished,
    SinkChanged, SinkPartsTooOld, TooManySinks."""

    sink_id: str
    batch: SinkBatch
    staged_ms: int


class StreamLoad(msgspec.Struct, frozen=True):
    """The epoch of the record batches that a sink has written for a CLOSED stream, and the end of the stream that they
    continue."""

    stream_id: int
    epoch: int
    start_offset: int


class CommitSinkBatch(Command[None], frozen=True):
    """→ None. Makes the batch done; ``targets`` have the sequence numbers after it. Idempotent: a batch that is done
    already is accepted before anything else is checked. Refused with SinkTakenOver when another driver has resumed the
    batch.

    A batch of mode OBJECTS names the objects that hold its records, and in ``loads`` the epoch and the end of each
    stream for which they were written. They are committed, and the streams' ends moved, by the same append. Refused
    with StreamNotClosed, StreamNotExist, SinkStreamMoved, OffsetNotMatched, ObjectNotExist; then nothing of the batch
    is written."""

    sink_id: str
    batch_id: int
    driver: str
    targets: tuple[SinkTarget, ...]
    is_abandoned: bool = False
    loads: tuple[StreamLoad, ...] = ()
    stream_set_object: NewObject | None = None
    stream_objects: tuple[NewObject, ...] = ()


def batch_folder(sink_id: str, batch_id: int) -> str:
    """Returns the prefix of the keys of all objects that are staged for a batch; it ends in a slash."""
    return f"{STAGING_PREFIX}{sink_id}/{batch_id}/"


def encode_sink(batch: SinkBatch) -> bytes:
    version = SINK_VERSION_TRANSACTION if batch.mode == TRANSACTION else SINK_VERSION
    return msgspec.msgpack.encode((version, *msgspec.structs.astuple(batch)))


def decode_sink(value: bytes) -> SinkBatch:
    """Raises msgspec.ValidationError for a value of another version."""
    version, *fields = msgspec.msgpack.decode(value)
    if version not in (SINK_VERSION, SINK_VERSION_TRANSACTION):
        raise msgspec.ValidationError(
            f"a sink's record of version {version}; this program reads up to {SINK_VERSION_TRANSACTION}"
        )
    return msgspec.convert(fields, SinkBatch)


def sink_of(view: ImageView, sink_id: str) -> SinkBatch | None:
    """Returns the newest batch of the sink; None if it has started none."""
    value = view.keys.get(f"{SINK_PREFIX}{sink_id}")
    return None if value is None else decode_sink(value)


def sinks_of(view: ImageView) -> dict[str, SinkBatch]:
    """Returns all sinks by id, in the order of ids."""
    return {
        key.removeprefix(SINK_PREFIX): decode_sink(value)
        for key, value in sorted(view.keys.items())
        if key.startswith(SINK_PREFIX)
    }
