"""Checks a whole store: metadata, objects and buckets. The check only reads, and may run beside a node and beside
maintenance."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from siltstone.foundation.quantity_words import counted
from siltstone.maintenance.checking.bucket_check import check_bucket
from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind
from siltstone.maintenance.checking.image_check import check_object_ranges, check_streams, check_topics
from siltstone.maintenance.checking.object_check import ObjectCheck, check_object, judge_copies
from siltstone.maintenance.checking.table_check import check_tables
from siltstone.maintenance.checking.transaction_check import check_transactions
from siltstone.maintenance.copies.planning import objects_short
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.objects import ObjectState, object_key
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.runtime.tasks import OnProgress

THREADS_MAX = 8
"""This many objects are read at a time; each holds the bytes of one read request."""

FAILED_MAX = 2 * THREADS_MAX
"""After this many failures in a row, no more objects are read from a bucket."""

QUEUED_MAX = 1_000
"""This many objects are given to the threads at a time, so that the queue does not grow with the store."""


def check(
    context: MaintenanceContext,
    *,
    read_blocks: bool = True,
    tables: TableSettings | None = None,
    on_progress: OnProgress | None = None,
    queued_max: int = QUEUED_MAX,
) -> CheckReport:
    """Checks the store; ``read_blocks`` also verifies the bytes of all objects, ``tables`` says where its tables are,
    to check them, too. ``on_progress`` is called with (objects checked, objects in all). ``queued_max``: so
    many objects wait for a thread. Raises Unavailable when the
    metadata cannot be reached."""
    image = context.metadata.refresh()
    findings = [*check_streams(image), *check_object_ranges(image), *check_topics(image)]
    committed = [held for held in image.objects.values() if held.state is ObjectState.COMMITTED]
    silent = _SilentBuckets(context)
    checks = list(
        _check_objects(
            context, silent, committed, queued_max, read_blocks=read_blocks, on_progress=on_progress
        )
    )
    findings += _still_wrong(context, checks)
    for bucket_id in context.buckets.urls:
        if not silent.refuses(bucket_id):
            findings += check_bucket(context, bucket_id, image)
    findings += silent.findings()
    findings += _short(image)
    findings += check_transactions(context, image)
    if tables is not None:
        findings += check_tables(context, tables, context.metadata.refresh())
    return CheckReport(
        findings=tuple(sorted(findings, key=_place)),
        streams_checked=len(image.streams),
        objects_checked=len(checks) - silent.objects,
        objects_not_checked=silent.objects,
        blocks_checked=sum(each.blocks_checked for each in checks),
        bytes_read=sum(each.bytes_read for each in checks),
    )


class _SilentBuckets:
    """Holds the buckets that cannot be listed, or in which several objects in a row could not be read. No more requests
    are sent to them, because each request takes seconds with its retries. Threads share this object."""

    def __init__(self, context: MaintenanceContext) -> None:
        self._lock = Lock()
        self._troubles: dict[int, str] = {}
        self._failed: Counter[int] = Counter()
        self._passed_over: Counter[int] = Counter()
        for bucket_id in context.buckets.urls:
            try:
                next(iter(context.buckets.store(bucket_id).list()), None)
            except SiltstoneError as trouble:
                self._troubles[bucket_id] = f"cannot be listed: {trouble}"

    def refuses(self, bucket_id: int) -> bool:
        return bucket_id in self._troubles

    def pass_over(self, bucket_id: int) -> ObjectCheck:
        with self._lock:
            self._passed_over[bucket_id] += 1
        return ObjectCheck(())

    def note(self, bucket_id: int, checked: ObjectCheck) -> ObjectCheck:
        """Notes whether an object could be read. After FAILED_MAX failures in a row the bucket counts as silent."""
        unread = [each for each in checked.findings if each.kind is FindingKind.STORE_UNREACHABLE]
        with self._lock:
            self._failed[bucket_id] = self._failed[bucket_id] + 1 if unread else 0
            if self._failed[bucket_id] >= FAILED_MAX:
                self._troubles.setdefault(bucket_id, f"could not be read any more: {unread[0].text}")
        return checked

    @property
    def objects(self) -> int:
        return self._passed_over.total()

    def findings(self) -> Iterator[Finding]:
        for bucket_id, trouble in self._troubles.items():
            count = self._passed_over[bucket_id]
            unjudged = f"; {counted(count, 'object')} there {'was' if count == 1 else 'were'} not checked"
            text = f"bucket {bucket_id} {trouble}{unjudged if count else ''}"
            yield Finding(FindingKind.STORE_UNREACHABLE, text, bucket_id=bucket_id)


def _check_objects(
    context: MaintenanceContext,
    silent: _SilentBuckets,
    objects: list[ObjectMetadata],
    queued_max: int,
    *,
    read_blocks: bool,
    on_progress: OnProgress | None,
) -> Iterator[ObjectCheck]:
    def check_one(metadata: ObjectMetadata) -> ObjectCheck:
        return judge_copies([*_check_copies(metadata)])

    def _check_copies(metadata: ObjectMetadata) -> Iterator[ObjectCheck]:
        """Checks each copy that is in a bucket which answers. If there is none, the object counts as not checked."""
        answering = [each for each in metadata.bucket_ids if not silent.refuses(each)]
        if not answering:
            yield silent.pass_over(metadata.bucket_id)
        for bucket_id in answering:
            try:
                store = context.buckets.store(bucket_id)
            except InvalidRequest as unknown:
                yield ObjectCheck((_of_unknown_bucket(metadata, unknown),))
                continue
            checked = check_object(store, metadata, read_blocks=read_blocks, bucket_id=bucket_id)
            yield silent.note(bucket_id, checked)

    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="check") as pool:
        done = 0
        for first in range(0, len(objects), queued_max):
            for result in pool.map(check_one, objects[first : first + queued_max]):
                done += 1
                if on_progress is not None:
                    on_progress(done, len(objects))
                yield result


def _of_unknown_bucket(metadata: ObjectMetadata, unknown: InvalidRequest) -> Finding:
    return Finding(
        FindingKind.STORE_UNREACHABLE,
        f"object {metadata.object_id}: {unknown}",
        object_id=metadata.object_id,
        key=object_key(metadata.object_id),
        size_bytes=metadata.size_bytes,
        bucket_id=metadata.bucket_id,
    )


def _short(image: MetadataImage) -> Iterator[Finding]:
    """Yields at most one note, which is about all objects with too few copies."""
    short = objects_short(image)
    if short:
        wanted = bucket_list_of(image).strategy.copies
        text = f"{counted(len(short), 'object')} in fewer than {wanted} buckets, the first is {short[0].name}"
        yield Finding(FindingKind.TOO_FEW_COPIES, text)


def _still_wrong(context: MaintenanceContext, checks: list[ObjectCheck]) -> list[Finding]:
    """Returns the findings without those of objects that were compacted or destroyed while the check ran."""
    found = [finding for each in checks for finding in each.findings]
    if not found:
        return []
    image = context.metadata.refresh()
    return [
        finding
        for finding in found
        if finding.object_id is None or committed_object(image, finding.object_id) is not None
    ]


def _place(finding: Finding) -> tuple[int, ...]:
    """Sorts findings: the most severe first, then by kind, stream and object, so that two checks can be compared."""
    ids = (-1 if each is None else each for each in (finding.stream_id, finding.object_id))
    return (-finding.severity, finding.kind, *ids)
