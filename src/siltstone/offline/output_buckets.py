"""Chooses the buckets of the objects that maintenance makes, by the strategy that the store has for new objects.

A unit keeps the buckets that were chosen for it, because its tasks have their URLs. So if there are several writable
buckets, each is probed before the choice, and a bucket that takes no writes is left out. If a bucket fails afterwards,
the unit fails, and the next plan chooses again.
"""

import logging
from collections.abc import Iterable, Mapping

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.lookup import bytes_by_bucket
from siltstone.model.buckets import BucketList
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.object_store.bucket_choice import (
    BucketCandidate,
    bucket_of_set,
    buckets_of_copies,
    bytes_given_at_start,
    home_of_stream,
)
from siltstone.object_store.bucket_identity import BucketMissing
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.runtime.randomness import random_token

log = logging.getLogger(__name__)


class TooFewBuckets(Unavailable):
    """Replication wants each object in more buckets than take writes. ``troubles``: bucket id → why it takes no
    writes."""

    def __init__(self, needed: int, troubles: Mapping[int, SiltstoneError]) -> None:
        why = "; ".join(
            f"bucket {bucket_id} takes no writes: {trouble}" for bucket_id, trouble in troubles.items()
        )
        super().__init__(f"each object has to be in {needed} buckets, and fewer take writes; {why}")
        self.needed = needed
        self.troubles = dict(troubles)


class OutputBuckets:
    """Makes the choices for one unit, or for all units of one run of a kind."""

    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._listed: BucketList = bucket_list_of(context.metadata.image)
        self._candidates: list[BucketCandidate] | None = None
        self._home_of: dict[int, int] = {}
        self._troubles: dict[int, SiltstoneError] = {}

    def of_set(self) -> int:
        """Returns the bucket of a stream set object; the caller checks that it may write there. Raises
        MetadataOlderThanBucket, BucketMissing, and the error of a bucket when there are several and none takes
        writes."""
        candidates = self._checked()
        chosen = bucket_of_set(self._listed.strategy, candidates)
        return candidates[0].bucket_id if chosen is None else chosen

    def of_stream(self, stream_id: int) -> int:
        """Returns the bucket of a stream object. Raises as ``of_set``."""
        if stream_id not in self._home_of:
            candidates = self._checked()
            chosen = home_of_stream(self._listed.strategy, candidates, stream_id)
            self._home_of[stream_id] = candidates[0].bucket_id if chosen is None else chosen
        return self._home_of[stream_id]

    def of_copies(self) -> tuple[int, ...]:
        """Returns the buckets into all of which replication puts each object; none under the other strategies. Raises
        TooFewBuckets, and as ``of_set``."""
        strategy = self._listed.strategy
        if not strategy.is_replication:
            return ()
        candidates = self._checked()
        if len(candidates) < strategy.copies_needed:
            raise TooFewBuckets(strategy.copies_needed, self._troubles)
        return tuple(buckets_of_copies(strategy, candidates))

    def _checked(self) -> list[BucketCandidate]:
        if self._candidates is None:
            writable = self._listed.writable
            if len(writable) < 2:
                only = writable[0].id if writable else self._context.buckets.default_bucket_id
                self._candidates = [BucketCandidate(only)]
            else:
                self._candidates = self._probed()
        return self._candidates

    def _probed(self) -> list[BucketCandidate]:
        """Returns those of several buckets that take writes. Raises the error of the last one if none does."""
        given = bytes_given_at_start(self._listed.buckets, bytes_by_bucket(self._context.metadata.image))
        usable: list[BucketCandidate] = []
        last_trouble: SiltstoneError | None = None
        for each in self._listed.writable:
            try:
                check_may_write(self._context, each.id)
                self._context.buckets.probe(each.id, f"maintenance-{random_token(self._context.rng)}")
            except (MetadataOlderThanBucket, BucketMissing):
                raise
            except SiltstoneError as trouble:
                log.warning("maintenance puts no new objects into bucket %d for now: %s", each.id, trouble)
                last_trouble = self._troubles[each.id] = trouble
            else:
                usable.append(BucketCandidate(each.id, each.weight, given[each.id]))
        if not usable:
            assert last_trouble is not None, "a writable bucket is usable or has a trouble"
            raise last_trouble
        return usable


def why_not_writable(context: MaintenanceContext, bucket_ids: Iterable[int]) -> dict[int, str]:
    """Returns bucket id → why nothing may be written there: the bucket's state, or what ``check_may_write`` raises."""
    listed = bucket_list_of(context.metadata.image)
    troubles: dict[int, str] = {}
    for bucket_id in bucket_ids:
        found = listed.bucket(bucket_id)
        if found is not None and not found.is_writable:
            troubles[bucket_id] = f"bucket {bucket_id} is {found.state.value}: no new objects are put there"
            continue
        try:
            check_may_write(context, bucket_id)
        except SiltstoneError as trouble:
            troubles[bucket_id] = str(trouble)
    return troubles
