"""The whole check of a store: metadata, objects and buckets. It only reads, and may run beside a node and beside
maintenance."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from siltstone.maintenance.checking.bucket_check import check_bucket
from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind
from siltstone.maintenance.checking.image_check import check_object_ranges, check_streams, check_topics
from siltstone.maintenance.checking.object_check import ObjectCheck, check_object
from siltstone.maintenance.checking.table_check import check_tables
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.settings import TableSettings
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import ObjectState, object_key
from siltstone.runtime.tasks import OnProgress

THREADS_MAX = 8
"""This many objects are read at a time; each holds the bytes of one read request."""

QUEUED_MAX = 1_000
"""This many objects are given to the threads at a time, so that the queue does not grow with the store."""


def check(
    context: MaintenanceContext,
    *,
    read_blocks: bool = True,
    tables: TableSettings | None = None,
    on_progress: OnProgress | None = None,
) -> CheckReport:
    """Checks the store; ``read_blocks`` also verifies the bytes of all objects, ``tables`` says where its tables are,
    to check them, too. ``on_progress`` is called with (objects checked, objects in all). Raises Unavailable when the
    metadata cannot be reached."""
    image = context.metadata.refresh()
    findings = [*check_streams(image), *check_object_ranges(image), *check_topics(image)]
    committed = [held for held in image.objects.values() if held.state is ObjectState.COMMITTED]
    checks = list(_check_objects(context, committed, read_blocks=read_blocks, on_progress=on_progress))
    findings += _still_wrong(context, checks)
    for bucket_id in context.buckets.urls:
        findings += check_bucket(context, bucket_id, image)
    if tables is not None:
        findings += check_tables(context, tables, context.metadata.refresh())
    return CheckReport(
        findings=tuple(sorted(findings, key=_place)),
        streams_checked=len(image.streams),
        objects_checked=len(checks),
        blocks_checked=sum(each.blocks_checked for each in checks),
        bytes_read=sum(each.bytes_read for each in checks),
    )


def _check_objects(
    context: MaintenanceContext,
    objects: list[ObjectMetadata],
    *,
    read_blocks: bool,
    on_progress: OnProgress | None,
) -> Iterator[ObjectCheck]:
    def check_one(metadata: ObjectMetadata) -> ObjectCheck:
        try:
            store = context.buckets.store(metadata.bucket_id)
        except InvalidRequest as unknown:
            return ObjectCheck((_of_unknown_bucket(metadata, unknown),))
        return check_object(store, metadata, read_blocks=read_blocks)

    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="check") as pool:
        done = 0
        for first in range(0, len(objects), QUEUED_MAX):
            for result in pool.map(check_one, objects[first : first + QUEUED_MAX]):
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
    )


def _still_wrong(context: MaintenanceContext, checks: list[ObjectCheck]) -> list[Finding]:
    """The findings without those of objects that were compacted or destroyed while the check ran."""
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
