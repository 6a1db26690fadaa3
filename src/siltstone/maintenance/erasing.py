"""Makes erasures and follows them to their end.

    request → the brokers upload → bounds → kept in metadata and buckets → the brokers drop what they keep
            → look → rewrite → (split stream set objects → look → rewrite) … → look: nothing is left

Every step may be repeated. A command that was killed is followed by another one, or by the scheduled kind.
"""

import hmac
from collections.abc import Callable, Iterator, Sequence

import msgspec

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import NO_JOB, Attempt, Scope, StartRunner, topics_named
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.erasure.kind import ERASURE, ErasureKind, ErasureLook
from siltstone.maintenance.erasure.noting import drop_kept
from siltstone.maintenance.erasure.planning import streams_of
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.metadata.commands import RemoveKey
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.model.objects import ObjectKind
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.offline.erased_keys import hashes_of_keys
from siltstone.offline.erasures import (
    ErasedKey,
    Erasure,
    ErasureVerification,
    StreamErasure,
    encode_erasure,
    erased_objects,
    erasure_of,
    erasures_of,
    is_open,
    keys_of,
    list_key,
    put_erasure,
)
from siltstone.offline.settings import KindSettings
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.runtime.randomness import random_token
from siltstone.scanning.failures import NodeNotFlushed, TailNotReadable
from siltstone.scanning.flushing import flush_nodes, flush_tails
from siltstone.scanning.planning import ScanPartition
from siltstone.tables.kind import TableErasure
from siltstone.tables.planning import exports

ROUNDS_MAX = 20
"""Rounds of one follow-up. A round ends with objects rewritten or split, so two or three are enough; more are needed
only if other maintenance replaces the objects meanwhile, each time."""

ID_DIGITS = 12


class ErasureRefused(InvalidRequest):
    """The topic or the keys cannot be erased. The text says why."""


class ErasureNotFlushed(Unavailable):
    """A broker has not uploaded its newest records, so it is not known which of them are of the keys."""


def request_erasure(
    context: MaintenanceContext, topic: str, keys: Sequence[bytes], *, leaves_tables: bool = False
) -> Erasure:
    """Keeps the request to erase all records of the keys that the topic has now, and returns it. The keys themselves
    are not kept. Rows leave the topic's table, too, unless ``leaves_tables``. Raises ErasureRefused,
    ErasureNotFlushed, TooManyErasures, and what the metadata and the buckets raise."""
    topics_named(context.metadata.refresh(), [topic])
    _refuse(topic, keys)
    if not leaves_tables:
        _refuse_keys_of_fields(context.metadata.image, topic)
    image = _flushed(context, topic)
    found = _topic(image, topic)
    try:
        flush_nodes(context)
    except NodeNotFlushed as trouble:
        raise ErasureNotFlushed(f"nothing was erased: {trouble}") from trouble
    bounds = tuple(image.streams[each.data_stream_id].end_offset for each in found.partitions)
    erasure = msgspec.structs.replace(
        _erasure(context, image, found, keys, bounds),
        has_table=not leaves_tables and topic in exports(image),
        leaves_tables=leaves_tables,
    )
    for bucket_id in context.buckets.urls:
        check_may_write(context, bucket_id)
    command = put_erasure(image, erasure)
    for bucket_id in context.buckets.urls:
        context.buckets.store(bucket_id).put(list_key(erasure.erasure_id), [encode_erasure(erasure)])
    context.metadata.execute(command)
    # Once more: brokers that see the request drop their caches and used log files after this flush.
    for reason in drop_kept(context, [erasure.erasure_id]).values():
        raise ErasureNotFlushed(
            f"erasure {erasure.erasure_id} was kept, and is not carried out yet: {reason}; then siltstone erasures"
            f" resume {erasure.erasure_id} continues"
        )
    if not any(bounds):
        _verify_empty(context, erasure.erasure_id)
    return erasure


def _verify_empty(context: MaintenanceContext, erasure_id: str) -> None:
    """Ends the erasure of a topic without a record, in which no run of the kind has anything to look at."""
    image = context.metadata.refresh()
    erasure = erasure_of(image, erasure_id)
    assert erasure is not None
    nothing = ErasureVerification(context.now_ms(), 0, 0, 0, image.next_object_id)
    context.metadata.execute(put_erasure(image, msgspec.structs.replace(erasure, verification=nothing)))


def look_for(
    context: MaintenanceContext,
    start_runner: StartRunner,
    settings: KindSettings,
    topic: str,
    keys: Sequence[bytes],
    watch: Watch,
) -> list[ErasureLook]:
    """Finds the objects that hold records of the keys, and changes nothing. Records that are in no object yet are not
    found. Raises ErasureRefused, and what a run raises."""
    image = context.metadata.refresh()
    topics_named(image, [topic])
    _refuse(topic, keys)
    found = _topic(image, topic)
    hash_key = bytes(16)
    hashes = tuple(hashes_of_keys(keys, hash_key, best_kernels()))
    wanted = {
        each.data_stream_id: (StreamErasure("", hash_key, hashes, end),)
        for each in found.partitions
        if (end := image.streams[each.data_stream_id].end_offset)
    }
    streams = streams_of(image, Scope(topics=frozenset([topic])), wanted)
    kind = ErasureKind(settings.maintenance.key_compaction)
    return kind.look(streams, Attempt(context, start_runner, NO_JOB, watch))


def follow(
    context: MaintenanceContext,
    settings: KindSettings,
    erasure_id: str,
    make_driver: Callable[[Scope], Driver],
) -> Iterator[RunReport]:
    """Carries out what an erasure still needs, and yields the report of each run. Afterwards the erasure is verified,
    or the last report says why not."""
    yield from _erase_records(context, settings, erasure_id, make_driver)
    erasure = erasure_of(context.metadata.refresh(), erasure_id)
    if erasure is not None and not erasure.is_pending:
        yield from erase_rows(context, settings, erasure, make_driver)


def _erase_records(
    context: MaintenanceContext,
    settings: KindSettings,
    erasure_id: str,
    make_driver: Callable[[Scope], Driver],
) -> Iterator[RunReport]:
    for _ in range(ROUNDS_MAX):
        erasure = erasure_of(context.metadata.refresh(), erasure_id)
        if erasure is None or not erasure.is_pending:
            return
        looking = make_driver(Scope(topics=frozenset([erasure.topic]), is_forced=True))
        reports = list(looking.run(chosen_kinds(settings, [ERASURE])))
        yield from reports
        sets = _sets_to_split(context.metadata.refresh(), erasure_id)
        if looking.is_cancelled or not all(each.is_well for each in reports) or not sets:
            return
        splitting = make_driver(Scope(is_forced=True))
        reports = list(splitting.run([StreamSetObjectCompaction(settings.compaction, sets)]))
        yield from reports
        if splitting.is_cancelled or not any(report.done for report in reports):
            return


def erase_rows(
    context: MaintenanceContext,
    settings: KindSettings,
    erasure: Erasure,
    make_driver: Callable[[Scope], Driver],
) -> Iterator[RunReport]:
    """Does what the erasure needs in the topic's table now, if there is something. Another export may have the lock;
    the report says so then."""
    if erasure.has_table:
        kind = TableErasure(settings.tables, grace_period_ms=settings.grace_period_ms)
        scope = Scope(topics=frozenset([erasure.topic]), is_forced=True)
        yield from make_driver(scope).run([kind])


def _sets_to_split(image: MetadataImage, erasure_id: str) -> frozenset[int]:
    """Returns the stream set objects in use that hold records of the keys, by the looks so far."""
    noted = (committed_object(image, each.object_id) for each in erased_objects(image, erasure_id))
    return frozenset(
        each.object_id for each in noted if each is not None and each.kind is ObjectKind.STREAM_SET_OBJECT
    )


def erasure_named(context: MaintenanceContext, erasure_id: str) -> Erasure:
    """Raises ErasureRefused when there is none with this id."""
    image = context.metadata.refresh()
    found = erasure_of(image, erasure_id)
    if found is None:
        known = ", ".join(each.erasure_id for each in erasures_of(image)) or "none"
        raise ErasureRefused(f"there is no erasure {erasure_id}; known are: {known}")
    return found


def forget_erasure(context: MaintenanceContext, erasure_id: str) -> None:
    """Removes an erasure that is verified, or whose topic was deleted, from the metadata and the buckets. A backup that
    is older than it would bring the records back. Raises ErasureRefused."""
    erasure = erasure_named(context, erasure_id)
    image = context.metadata.image
    if is_open(image, erasure) and erasure.topic_id in image.topics:
        raise ErasureRefused(
            f"erasure {erasure_id} is not verified: records of its keys may be left; run siltstone erasures resume"
            f" {erasure_id} first"
        )
    for bucket_id in context.buckets.urls:
        check_may_write(context, bucket_id)
        context.buckets.store(bucket_id).delete([list_key(erasure_id)])
    for key in list(keys_of(context.metadata.refresh(), erasure_id)):
        context.metadata.execute(RemoveKey(key))


def digest_of(key: bytes, salt: bytes) -> bytes:
    """Returns the HMAC-SHA-256 by which reports name a key."""
    return hmac.digest(salt, key, "sha256")


def _refuse(topic: str, keys: Sequence[bytes]) -> None:
    if topic.startswith("__"):
        raise ErasureRefused(
            f"{topic} is an internal topic, whose keys are names of groups and transactions: delete the group, or let"
            " the transaction expire"
        )
    if not keys:
        raise ErasureRefused("no key was given: name one with --key, or a file of keys with --keys-from")


def _refuse_keys_of_fields(image: MetadataImage, topic: str) -> None:
    """Refuses a table that has fields of keys instead of the keys: rows cannot be compared with the erased keys."""
    export = exports(image).get(topic)
    if export is not None and export.config.key_columns:
        raise ErasureRefused(
            f"{topic} is kept as table {export.table}, which has fields of the keys and not their bytes, so an erasure"
            " does not find its rows: delete them by SQL, let the table's older snapshots expire, look at its dead"
            " letters, too, and erase the records of the topic with --leave-tables"
        )


def _topic(image: MetadataImage, name: str) -> TopicMetadata:
    return image.topics[image.topic_ids[name]]


def _flushed(context: MaintenanceContext, topic: str) -> MetadataImage:
    image = context.metadata.refresh()
    found = _topic(image, topic)
    partitions = [
        ScanPartition(found, number, image.streams[each.data_stream_id])
        for number, each in enumerate(found.partitions)
    ]
    try:
        flush_tails(context, partitions)
    except TailNotReadable as trouble:
        raise ErasureNotFlushed(
            f"the newest records of node {trouble.node_id} are not in objects, and some may be of the keys:"
            f" {trouble.reason}; start the node again if it has died"
        ) from trouble
    return context.metadata.refresh()


def _erasure(
    context: MaintenanceContext,
    image: MetadataImage,
    topic: TopicMetadata,
    keys: Sequence[bytes],
    bounds: tuple[int, ...],
) -> Erasure:
    def random_bytes() -> bytes:
        return context.rng.getrandbits(128).to_bytes(16, "big")

    unique = list(dict.fromkeys(keys))
    # Erasures of one topic share their hash key, so that a task hashes each record's key once for all of them.
    of_topic = [each.hash_key for each in erasures_of(image) if each.topic_id == topic.topic_id]
    hash_key = of_topic[0] if of_topic else random_bytes()
    salt = random_bytes()
    hashes = hashes_of_keys(unique, hash_key, best_kernels())
    return Erasure(
        erasure_id=random_token(context.rng)[:ID_DIGITS],
        topic_id=topic.topic_id,
        topic=topic.name,
        hash_key=hash_key,
        salt=salt,
        keys=tuple(ErasedKey(each, digest_of(key, salt)) for each, key in zip(hashes, unique, strict=True)),
        bounds=bounds,
        requested_ms=context.now_ms(),
    )
