"""What consumer groups have committed, without a broker: from the objects of ``__consumer_offsets``, and from the
progress that brokers mirror into the metadata for retention.

A commit of the last minute may be only in the log of a broker, and is not seen here. At an earlier version the records
are read that were in objects by then; a commit that key compaction has removed since is missing.

The layouts are Kafka's; ``broker.groups.offsets_log.record`` writes them, and a test compares. Key, in version 0 or 1:
int16 version, group, topic, int32 partition. Value, in version 0 to 3: int16 version, int64 offset, in version 3 an
int32 leader epoch, metadata, int64 commit time, in version 1 an int64 expiry time. Texts have an int16 length.
"""

import logging
from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Any

from siltstone.maintenance.retention.groups import (
    KEY_PREFIX,
    NO_OFFSET,
    DamagedGroupProgress,
    decode_progress,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata_tables.moment import GroupCommit
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan

OFFSETS_TOPIC = "__consumer_offsets"
COMMITS_MAX = 2_000_000
"""Positions of groups that are held in memory at once: 400 MB, beyond what the brokers of one store hold."""

_KEY_VERSIONS = (0, 1)
_VALUE_VERSION_MAX = 3
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")

log = logging.getLogger(__name__)
Key = tuple[str, str, int]


class TooManyCommits(InvalidRequest):
    """More positions of groups are committed than a program may hold in memory."""


def commits_of(source: MaintenanceContext, image: MetadataImage) -> list[GroupCommit]:
    """Returns the positions of all groups, as far as they are in objects or mirrored. Raises TooManyCommits, and
    what planning and reading a scan raise."""
    found = {_key(each): each for each in mirrored_commits(image)}
    for each in _in_objects(source, image):
        if (mirrored := found.get(_key(each))) is None or mirrored.offset <= each.offset:
            found[_key(each)] = each
    return list(found.values())


def _key(commit: GroupCommit) -> Key:
    return commit.group, commit.topic, commit.partition


def mirrored_commits(image: MetadataImage) -> Iterator[GroupCommit]:
    """Yields the progress of the groups that retention waits for, which brokers mirror into the metadata; it is never
    ahead of what a group has committed. Pure."""
    for key, value in image.keys.items():
        if not key.startswith(KEY_PREFIX):
            continue
        try:
            progress = decode_progress(value)
        except DamagedGroupProgress as damage:
            log.warning("%s is left out: %s", key, damage)
            continue
        for topic_id, offsets in progress.offsets.items():
            if (topic := image.topics.get(topic_id)) is not None:
                for partition, offset in enumerate(offsets):
                    if offset != NO_OFFSET:
                        yield GroupCommit(key.removeprefix(KEY_PREFIX), topic.name, partition, offset)


def _in_objects(source: MaintenanceContext, image: MetadataImage) -> Iterable[GroupCommit]:
    """Returns the newest commit of each group and partition that was in objects at the image."""
    now = source.metadata.refresh()
    topic_id = image.topic_ids.get(OFFSETS_TOPIC)
    if topic_id is None or topic_id not in now.topics:
        return ()
    ends = {}
    for number, partition in enumerate(image.topics[topic_id].partitions):
        then, start = (
            image.streams[partition.data_stream_id],
            now.streams[partition.data_stream_id].start_offset,
        )
        ends[number] = max(then.end_offset, start)
    request = scan_request(
        OFFSETS_TOPIC, columns=["key", "value"], end=ends, partitions=list(ends), tail="committed", lease="0"
    )
    return newest_commits(Scan(plan_scan(source, request)).batches())


def newest_commits(batches: Iterable[Any], commits_max: int = COMMITS_MAX) -> list[GroupCommit]:
    """Returns the commits that are left when the records of the batches, with the columns key and value, are taken one
    after another. A record that no broker writes is passed over with a warning. Raises TooManyCommits. Pure."""
    newest: dict[bytes, bytes] = {}
    for batch in batches:
        for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if key is None or not _is_of_offset(key):
                continue
            if value is None:
                newest.pop(key, None)
            else:
                newest[key] = value
        if len(newest) > commits_max:
            raise TooManyCommits(
                f"{OFFSETS_TOPIC} has the positions of more than {commits_max:,} groups and partitions: read the topic "
                "with Spark"
            )
    found: dict[Key, GroupCommit] = {}
    for key, value in newest.items():
        try:
            commit = decode_commit(key, value)
        except (error, ValueError) as damage:
            log.warning("a record of %s is left out: %s", OFFSETS_TOPIC, damage)
        else:
            found[_key(commit)] = commit
    return list(found.values())


def _is_of_offset(key: bytes) -> bool:
    return len(key) >= _INT16.size and _INT16.unpack_from(key)[0] in _KEY_VERSIONS


def decode_commit(key: bytes, value: bytes) -> GroupCommit:
    """Decodes a committed offset. Raises ValueError, struct.error. Pure."""
    group, at = _text(key, _INT16.size)
    topic, at = _text(key, at)
    (partition,) = _INT32.unpack_from(key, at)
    (version,) = _INT16.unpack_from(value)
    if not 0 <= version <= _VALUE_VERSION_MAX:
        raise ValueError(
            f"a committed offset has version {version}; this program reads 0 to {_VALUE_VERSION_MAX}"
        )
    (offset,) = _INT64.unpack_from(value, _INT16.size)
    at = _INT16.size + _INT64.size + (_INT32.size if version == _VALUE_VERSION_MAX else 0)
    metadata, at = _text(value, at)
    (committed_ms,) = _INT64.unpack_from(value, at)
    return GroupCommit(group, topic, partition, offset, committed_ms, metadata)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(data, at)
    begin, end = at + _INT16.size, at + _INT16.size + length
    if length < 0 or end > len(data):
        raise ValueError(f"a text claims {length} bytes in a record of {len(data)} bytes")
    return data[begin:end].decode(), end
