"""Decides the commands about sinks: a batch is started once, and ended by the driver that began or resumed it last.

Spark gives each batch of a query the next id, repeats the last one after a restart, and begins at 0 with a new
checkpoint. So a batch id below the recorded one is never new, and a batch of another query never continues the recorded
one: answering either with "done" would silently lose rows.
"""

import msgspec

from siltstone.metadata.decisions.fences import Decision, existing_stream
from siltstone.metadata.decisions.new_objects import NewObjects, check_form, check_waiting, commitment
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeySet, Record, StreamsLoaded
from siltstone.metadata.refusals import (
    CommandMalformed,
    OffsetNotMatched,
    SinkBatchBehind,
    SinkBatchUnfinished,
    SinkChanged,
    SinkOfAnotherQuery,
    SinkPartsTooOld,
    SinkStreamMoved,
    SinkTakenOver,
    SinkUnknown,
    StreamNotClosed,
    TooManySinks,
)
from siltstone.metadata.sinks import (
    OBJECTS,
    RELAY,
    SINK_ID,
    SINK_PREFIX,
    SINKS_MAX,
    STAGED_MS_MAX,
    TRANSACTION,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    SinkTarget,
    StreamLoad,
    encode_sink,
    sink_of,
)
from siltstone.metadata.streams import load_epoch
from siltstone.model.limits import HOUR_MS


def decide_begin_sink_batch(view: ImageView, command: BeginSinkBatch, now_ms: int) -> Decision[SinkBatch]:
    wanted, sink_id = command.batch, command.sink_id
    if not SINK_ID.fullmatch(sink_id):
        raise CommandMalformed(
            f"{sink_id!r} cannot be the name of a sink; give 1 to 128 letters, digits, '.', '_' or '-'"
        )
    standing = sink_of(view, sink_id)
    if standing is None:
        _refuse_too_many(view)
        return _begun(command, wanted.producer_id, (), now_ms)
    _refuse_others(sink_id, standing, wanted)
    if standing.batch_id == wanted.batch_id:
        if not standing.is_over and (standing.mode, wanted.mode) == (OBJECTS, RELAY):
            return _relayed_instead(sink_id, standing, wanted)
        if standing.is_over or standing.driver == wanted.driver:
            return Decision((), standing)
        resumed = msgspec.structs.replace(standing, driver=wanted.driver)
        if standing.mode == TRANSACTION:  # the transaction of the producer before has ended
            resumed = msgspec.structs.replace(resumed, producer_id=wanted.producer_id)
        return Decision((_set(sink_id, resumed),), resumed)
    if not standing.is_over:
        raise SinkBatchUnfinished(
            f"batch {standing.batch_id} of sink {sink_id} is not finished, so batch {wanted.batch_id} cannot begin: run"
            f" batch {standing.batch_id} again, or give it up with siltstone sinks abandon {sink_id}"
        )
    if wanted.mode == TRANSACTION:
        return _begun(command, wanted.producer_id, (), now_ms)
    producer_id = wanted.producer_id if standing.producer_id < 0 else standing.producer_id
    return _begun(command, producer_id, standing.targets, now_ms)


def decide_commit_sink_batch(view: ImageView, command: CommitSinkBatch, now_ms: int) -> Decision[None]:
    standing = sink_of(view, command.sink_id)
    if standing is None or standing.batch_id < command.batch_id:
        raise SinkUnknown(
            f"batch {command.batch_id} of sink {command.sink_id} was not started; begin it first"
        )
    if standing.batch_id > command.batch_id or standing.is_over:
        return Decision((), None)
    check_sink_driver(command.sink_id, standing, command.driver)
    loaded = () if command.is_abandoned else _loaded(view, standing, command, now_ms)
    done = msgspec.structs.replace(standing, state=SinkState.DONE, manifest="", manifest_crc=0)
    if (
        command.is_abandoned
    ):  # the producer's last sequence is not known, so the next batch has another producer
        done = msgspec.structs.replace(done, state=SinkState.ABANDONED, producer_id=-1, targets=())
    elif (
        standing.mode == TRANSACTION
    ):  # each transaction has a producer of its own, whose sequences begin at 0
        done = msgspec.structs.replace(done, producer_id=-1)
    else:
        targets = {target.stream_id: target for target in (*standing.targets, *command.targets)}
        done = msgspec.structs.replace(done, targets=tuple(target for _, target in sorted(targets.items())))
    return Decision((*loaded, _set(command.sink_id, done)), None)


def check_sink_driver(sink_id: str, standing: SinkBatch | None, driver: str) -> None:
    """Checks that ``driver`` has started or resumed the unfinished batch of the sink last. Raises SinkTakenOver."""
    if standing is None or standing.is_over or standing.driver != driver:
        which = "a batch" if standing is None else f"batch {standing.batch_id}"
        raise SinkTakenOver(
            f"another process has resumed {which} of sink {sink_id} and finishes it; stop this one"
        )


def _relayed_instead(sink_id: str, standing: SinkBatch, wanted: SinkBatch) -> Decision[SinkBatch]:
    """Returns the unfinished batch in mode RELAY, with its own parts."""
    producer_id = wanted.producer_id if standing.producer_id < 0 else standing.producer_id
    relayed = msgspec.structs.replace(
        standing, mode=RELAY, driver=wanted.driver, producer_id=producer_id,
        targets=_targets(standing.targets, wanted.targets),
    )  # fmt: skip
    return Decision((_set(sink_id, relayed),), relayed)


def _loaded(
    view: ImageView, standing: SinkBatch, command: CommitSinkBatch, now_ms: int
) -> tuple[Record, ...]:
    """Returns the records that commit the objects of the batch and move the ends of their streams. Raises
    CommandMalformed, ObjectNotExist, StreamNotExist, StreamNotClosed, SinkStreamMoved, OffsetNotMatched."""
    objects = NewObjects.of(command.stream_set_object, command.stream_objects)
    has_objects = bool(objects.members or command.loads)
    if has_objects != (standing.mode == OBJECTS and bool(standing.manifest)):
        raise CommandMalformed(
            f"batch {command.batch_id} of sink {command.sink_id} has mode {standing.mode}, and its commit names"
            f" {len(objects.members)} objects"
        )
    if not has_objects:
        return ()
    check_form(objects)
    ends = {load.stream_id: _checked_load(view, load) for load in command.loads}
    for held in sorted(objects.ranges(), key=lambda held: (held.stream_id, held.start_offset)):
        if ends.get(held.stream_id) != held.start_offset:
            raise OffsetNotMatched(
                f"the range [{held.start_offset}, {held.end_offset}) of object {held.object_id} does not continue"
                f" stream {held.stream_id}, which ends at {ends.get(held.stream_id)}"
            )
        ends[held.stream_id] = held.end_offset
    check_waiting(view, objects.ids, now_ms)
    loads = tuple((load.stream_id, load.epoch, ends[load.stream_id]) for load in command.loads)
    return (*commitment(view, objects, now_ms, now_ms), StreamsLoaded(loads))


def _checked_load(view: ImageView, load: StreamLoad) -> int:
    """Returns the end of the stream that the load continues. Raises StreamNotExist, StreamNotClosed,
    SinkStreamMoved."""
    stream = existing_stream(view, load.stream_id)
    if stream.state is not StreamState.CLOSED:
        raise StreamNotClosed(
            f"stream {stream.stream_id} is open at node {stream.owner}, and only the broker there may append to it:"
            " stop that broker, or write with mode=relay"
        )
    if (load_epoch(stream), stream.end_offset) != (load.epoch, load.start_offset):
        raise SinkStreamMoved(
            f"stream {stream.stream_id} ends at {stream.end_offset}, and is to be appended to under epoch"
            f" {load_epoch(stream)}: the objects were written for {load.start_offset} and epoch {load.epoch}"
        )
    return stream.end_offset


def _begun(
    command: BeginSinkBatch, producer_id: int, standing: tuple[SinkTarget, ...], now_ms: int
) -> Decision[SinkBatch]:
    """Makes the intent. For each stream it has the sequence number of the recorded batch, and the offset of the
    command."""
    if now_ms - command.staged_ms > STAGED_MS_MAX:
        raise SinkPartsTooOld(
            f"the parts of batch {command.batch.batch_id} of sink {command.sink_id} were staged more than"
            f" {STAGED_MS_MAX // HOUR_MS} hours ago and are deleted soon; write the batch again"
        )
    begun = msgspec.structs.replace(
        command.batch, state=SinkState.INTENT, producer_id=producer_id, begun_ms=now_ms,
        targets=_targets(standing, command.batch.targets),
    )  # fmt: skip
    return Decision((_set(command.sink_id, begun),), begun)


def _targets(standing: tuple[SinkTarget, ...], given: tuple[SinkTarget, ...]) -> tuple[SinkTarget, ...]:
    """Returns the recorded targets with the start offsets of the given ones; the sequences of new streams begin at
    0."""
    targets = {target.stream_id: target for target in standing}
    for target in given:
        recorded = targets.get(target.stream_id)
        sequence = 0 if recorded is None else recorded.next_sequence
        targets[target.stream_id] = SinkTarget(target.stream_id, sequence, target.start_offset)
    return tuple(target for _, target in sorted(targets.items()))


def _set(sink_id: str, batch: SinkBatch) -> KeySet:
    return KeySet(f"{SINK_PREFIX}{sink_id}", encode_sink(batch))


def _refuse_others(sink_id: str, standing: SinkBatch, wanted: SinkBatch) -> None:
    if standing.query_id != wanted.query_id:
        raise SinkOfAnotherQuery(
            f"sink {sink_id} belongs to query {standing.query_id or 'none (batches)'}, whose newest batch is"
            f" {standing.batch_id}, and this is query {wanted.query_id or 'none (batches)'}: use another sinkName, or"
            f" siltstone sinks forget {sink_id} if the old checkpoint is not needed any more"
        )
    if standing.batch_id > wanted.batch_id:
        raise SinkBatchBehind(
            f"batch {wanted.batch_id} of sink {sink_id} is behind batch {standing.batch_id}, which was started: an old"
            " checkpoint was put back, or two programs use one sinkName"
        )
    if standing.is_over:
        return
    is_other_mode = standing.mode != wanted.mode and (standing.mode, wanted.mode) != (OBJECTS, RELAY)
    if is_other_mode or standing.schema != wanted.schema:
        raise SinkChanged(
            f"sink {sink_id} has mode {standing.mode} and columns {standing.schema}, and the batch has mode"
            f" {wanted.mode} and columns {wanted.schema}: finish batch {standing.batch_id} as it was started"
        )


def _refuse_too_many(view: ImageView) -> None:
    count = sum(key.startswith(SINK_PREFIX) for key in view.keys)
    if count >= SINKS_MAX:
        raise TooManySinks(
            f"there are {count} sinks, as many as may be; siltstone sinks list shows them, siltstone sinks forget SINK"
            " removes one"
        )
