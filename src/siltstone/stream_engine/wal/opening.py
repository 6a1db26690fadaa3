"""Opens the write-ahead log where the setting ``engine.wal.location`` says: in files, or in a bucket.

Only this module knows both adapters of the port. The location in words is what the node registers, so that another node
knows whether it can reach the log.
"""

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec

from siltstone.metadata.entities import NodeMetadata
from siltstone.model.errors import InvalidRequest
from siltstone.object_formats.wal_object import wal_prefix
from siltstone.object_store.buckets import Buckets, UnknownBucket
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.settings import EngineSettings, InvalidSetting, WalSettings
from siltstone.stream_engine.wal.attached import AttachedLog
from siltstone.stream_engine.wal.bucket_wal import BucketWriteAheadLog
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.port import WriteAheadLog

_BUCKET = re.compile(r"bucket:(\d+)/")

FILE_THREADS = 1
"""A log in files writes one file at a time, so a second thread would only wait. Nothing else runs on this thread."""


class WalOutOfReach(InvalidRequest):
    """The log of another node cannot be opened from here."""


class WalPlace(msgspec.Struct, frozen=True):
    """Where the log of a node is: ``folder``, on the machine ``host``, is used when it is in files."""

    settings: EngineSettings
    folder: Path
    host: str = ""

    @property
    def location(self) -> str:
        """The location in words, as it is registered: ``file://host/folder`` or ``bucket:0/wal/88/0``. Older
        versions wrote no host."""
        wal, node_id = self.settings.wal, self.settings.node_id
        if wal.bucket_id is not None:
            return f"bucket:{wal.bucket_id}/{wal_prefix(node_id)[:-1]}"
        return self.folder.as_uri().replace("file://", f"file://{quote(self.host, safe='')}", 1)


def is_same_folder(one: str, other: str) -> bool:
    """Returns whether two locations name the same folder of the same machine. A location without a host, of an older
    version, may be on any."""
    first, second = urlsplit(one), urlsplit(other)
    if one == other:
        return True
    is_of_any_host = not (first.netloc and second.netloc)
    return is_of_any_host and first.scheme == second.scheme == "file" and first.path == second.path


def bucket_of_log(node: NodeMetadata) -> int | None:
    """Returns the id of the bucket that holds the node's log; None when it is in files."""
    bucket = _BUCKET.match(node.wal_location)
    return int(bucket[1]) if bucket is not None else None


def wal_threads(settings: WalSettings) -> int:
    """Returns how many threads the calls of the log need: for a log in a bucket one for each put under way, and two
    more, which delete and list."""
    return FILE_THREADS if settings.bucket_id is None else settings.bulks_in_flight_max + 2


def open_wal(
    place: WalPlace, buckets: Buckets, store_id: str, calls: BlockingCalls, clock: Clock, rng: Random
) -> WriteAheadLog:
    """Opens the log; nothing is read from it yet. Raises WalInUse, and InvalidSetting when there is no such bucket."""
    settings, wal = place.settings, place.settings.wal
    if wal.bucket_id is None:
        return FileWriteAheadLog(place.folder, settings.node_id, wal, calls, clock)
    try:
        store = buckets.store(wal.bucket_id)
    except UnknownBucket:
        raise InvalidSetting(
            f"engine.wal.location is {wal.location}, and there is no buckets.{wal.bucket_id} in the settings: add it, "
            "or name another bucket"
        ) from None
    return BucketWriteAheadLog(store, store_id, settings.node_id, wal, calls, clock, rng)


def open_wal_of(
    node: NodeMetadata,
    settings: WalSettings,
    buckets: Buckets,
    store_id: str,
    calls: BlockingCalls,
    clock: Clock,
    rng: Random,
    host: str = "",
    attached: AttachedLog | None = None,
) -> WriteAheadLog:
    """Opens the log of another node, where that node registered it, to replay it; or the ``attached`` log of that node.
    ``host`` is this machine's name. Raises WalInUse when its process still holds it, and WalOutOfReach when it is on
    another machine, or in a bucket that is not in the settings."""
    if attached is not None:
        return FileWriteAheadLog(attached.folder, node.node_id, settings, calls, clock)
    bucket_id = bucket_of_log(node)
    if bucket_id is not None and bucket_id in buckets.urls:
        store = buckets.store(bucket_id)
        return BucketWriteAheadLog(store, store_id, node.node_id, settings, calls, clock, rng)
    place = urlsplit(node.wal_location)
    folder = Path(unquote(place.path))
    if place.scheme == "file" and unquote(place.netloc) in ("", host) and folder.is_dir():
        return FileWriteAheadLog(folder, node.node_id, settings, calls, clock)
    raise WalOutOfReach(
        f"the write-ahead log of node {node.node_id} is in {node.wal_location}, which cannot be reached from here: "
        "start that node, or give it the folder on its machine"
    )
