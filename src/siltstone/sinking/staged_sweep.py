"""Deletes what batches of sinks have left in the staging folder: attempts of tasks that lost, and batches whose driver
died before the intent or after the last write.

A batch that is an intent keeps all of its folder, whatever its age. A driver refuses to begin a batch whose parts were
staged more than STAGED_MS_MAX ago, so an object older than STAGING_KEPT_MS is needed only if an intent names it.
"""

import msgspec

from siltstone.metadata.sinks import SINK_PREFIX, STAGING_KEPT_MS, STAGING_PREFIX, batch_folder, sinks_of
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX
from siltstone.offline.context import MaintenanceContext, check_may_write


class StagedSweepReport(msgspec.Struct, frozen=True):
    """How much was deleted."""

    objects: int = 0
    size_bytes: int = 0


def sweep_staged(
    context: MaintenanceContext,
    bucket_id: int,
    kept_ms: int = STAGING_KEPT_MS,
    *,
    keys_max: int = DELETE_BATCH_KEYS_MAX,
) -> StagedSweepReport:
    """Deletes staged objects that are older than ``kept_ms``; returns how much. The intents are read after the
    objects are listed, so a batch that begins meanwhile is seen: its objects are young, or it is refused. Raises what
    the bucket and the metadata raise."""
    check_may_write(context, bucket_id)
    store = context.buckets.store(bucket_id)
    before_ms = context.now_ms() - kept_ms
    old = [each for each in store.list(STAGING_PREFIX) if each.modified_ms < before_ms]
    if not old:
        return StagedSweepReport()
    kept = tuple(
        batch_folder(sink_id, batch.batch_id)
        for sink_id, batch in sinks_of(context.metadata.refresh()).items()
        if not batch.is_over
    )
    due = [each for each in old if not each.key.startswith(kept)]
    for first in range(0, len(due), keys_max):
        store.delete([each.key for each in due[first : first + keys_max]])
    return StagedSweepReport(len(due), sum(each.size_bytes for each in due))


def has_sinks(context: MaintenanceContext) -> bool:
    """Returns whether a sink has ever started a batch; if none has, a sweep need not list the staging folder."""
    return any(key.startswith(SINK_PREFIX) for key in context.metadata.image.keys)
