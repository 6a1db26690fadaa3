"""The one commit of a compaction, of whatever kind, and its three outcomes (rule 5).

done      the new objects stand in the place of the old ones
refused   nothing changed: what was uploaded may be deleted at once
unknown   asked again; nothing is deleted, be the last answer a refusal: an attempt before it may have happened
"""

import logging
from collections.abc import Sequence
from typing import TypeAlias

from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.commands import CommitCompaction, CommitKeyCompaction, NewObject
from siltstone.metadata.decisions.coverage import check_coverage
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import CompactedObjectsNotFound, Refusal
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX
from siltstone.model.objects import object_key
from siltstone.object_store.port import ObjectStore

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 10
BACKOFF_MS_MIN = 200
BACKOFF_MS_MAX = 10_000


AnyCommit: TypeAlias = CommitCompaction | CommitKeyCompaction


class CompactionOutcomeUnknown(Unavailable):
    """Whether the commit happened could not be found out. Both is safe: what was not committed is swept away."""


def commit(context: MaintenanceContext, command: AnyCommit, store: ObjectStore) -> None:
    """Raises the Refusal, or CompactionOutcomeUnknown."""
    uncertain = False
    for attempt in range(ATTEMPTS_MAX):
        try:
            if not uncertain:
                _check_coverage(context, command)
            context.metadata.execute(command)
        except Refusal:
            if not uncertain:
                _delete_outputs(command, store)
            raise
        except Unavailable as trouble:
            log.warning("the outcome of the compaction's commit is not known yet: %s", trouble)
            uncertain = True
            ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
            context.clock.block_ms(ceiling_ms * (0.5 + context.rng.random() / 2))
        else:
            return
    raise CompactionOutcomeUnknown(
        f"the metadata log did not answer {ATTEMPTS_MAX} times; look at the next round, nothing is lost either way"
    )


def check_sources(image: MetadataImage, compacted: Sequence[int]) -> None:
    """Whether another driver replaced some of them since the plan was made. Raises CompactedObjectsNotFound."""
    gone = [object_id for object_id in compacted if committed_object(image, object_id) is None]
    if gone:
        raise CompactedObjectsNotFound(f"objects {gone[:10]} were compacted by another driver; plan again")


def _check_coverage(context: MaintenanceContext, command: AnyCommit) -> None:
    """The decision checks the same; finding it here spares the log a refusal. Raises CompactedObjectsNotFound,
    CoverageNotMatched."""
    image = context.metadata.refresh()
    check_sources(image, command.compacted)
    check_coverage(
        image,
        (held for object_id in command.compacted for held in image.objects[object_id].ranges),
        (held for new in _new_objects(command) for held in new.ranges),
    )


def _new_objects(command: AnyCommit) -> list[NewObject]:
    if isinstance(command, CommitCompaction) and command.stream_set_object is not None:
        return [command.stream_set_object, *command.stream_objects]
    return list(command.stream_objects)


def _delete_outputs(command: AnyCommit, store: ObjectStore) -> None:
    """Best effort, so that the space is free before the time limit; what is left, the sweep finds."""
    keys = [object_key(new.object_id) for new in _new_objects(command)]
    try:
        for first in range(0, len(keys), DELETE_BATCH_KEYS_MAX):
            store.delete(keys[first : first + DELETE_BATCH_KEYS_MAX])
    except SiltstoneError as trouble:
        log.warning("refused outputs are left to the sweep: %s", trouble)
