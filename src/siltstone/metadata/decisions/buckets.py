"""Decides the commands about the list of a store's buckets (register, add, state, remove, strategy), and whether
objects may be prepared for a bucket."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from siltstone.metadata.buckets import (
    BUCKETS_KEY,
    BUCKETS_MAX,
    WEIGHT_MAX,
    AddBucket,
    RegisterBuckets,
    RemoveBucket,
    SetBucketState,
    SetWriteStrategy,
    bucket_list_of,
    encode_bucket_list,
)
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeySet, Record
from siltstone.metadata.refusals import (
    BucketInUse,
    BucketNotListed,
    BucketNotWritable,
    CommandMalformed,
    LastWritableBucket,
    StrategyNotAvailable,
    TooManyBuckets,
)
from siltstone.model.buckets import BucketDefinition, BucketList, BucketState, WriteStrategy


def decide_register_buckets(view: ImageView, command: RegisterBuckets, now_ms: int) -> Decision[BucketList]:
    listed = bucket_list_of(view)
    writable_id = None if listed.buckets else command.default_id
    new = [
        BucketDefinition(
            bucket_id, url, 1, BucketState.WRITABLE if bucket_id == writable_id else BucketState.READ_ONLY
        )
        for bucket_id, url in command.urls.items()
        if listed.bucket(bucket_id) is None
    ]
    return Decision(_changed(listed, after := _with(listed, new)), after)


def decide_add_bucket(view: ImageView, command: AddBucket, now_ms: int) -> Decision[BucketDefinition]:
    _check_weight(command.weight)
    listed = bucket_list_of(view)
    if not listed.buckets:
        raise BucketNotListed(
            "the store does not list its first bucket yet: start a node of this version once (siltstone serve)"
        )
    found = next((each for each in listed.buckets if each.url == command.url and not each.is_removed), None)
    if found is None:
        bucket_id = max(each.id for each in listed.buckets) + 1
        added = BucketDefinition(bucket_id, command.url, command.weight, BucketState.READ_ONLY)
    else:
        added = replace(found, weight=command.weight)
    return Decision(_changed(listed, _with(listed, [added])), added)


def decide_set_bucket_state(view: ImageView, command: SetBucketState, now_ms: int) -> Decision[None]:
    listed = bucket_list_of(view)
    found = _found(listed, command.bucket_id)
    after = _with(listed, [replace(found, state=command.state)])
    if not after.writable:
        raise LastWritableBucket(
            f"no other bucket than {found.id} is writable, so new objects would have no place; add another one first"
        )
    needed = listed.strategy.copies_needed
    if found.is_writable and len(after.writable) < needed:
        raise LastWritableBucket(
            f"without bucket {found.id} only {len(after.writable)} buckets would be writable, and each new object has"
            f" to be in {needed}; add another one first, or choose fewer copies (siltstone buckets strategy)"
        )
    return Decision(_changed(listed, after), None)


def decide_remove_bucket(view: ImageView, command: RemoveBucket, now_ms: int) -> Decision[None]:
    listed = bucket_list_of(view)
    if command.bucket_id in listed.removed:
        return Decision((), None)
    found = _found(listed, command.bucket_id)
    if found.is_writable:
        raise BucketInUse(
            f"bucket {found.id} is writable: drain it first (siltstone buckets drain {found.id})"
        )
    held = Counter(each.state for each in view.objects.values() if found.id in each.every_bucket_id)
    if held:
        counts = ", ".join(f"{count:,} {state.name.lower()}" for state, count in held.items())
        raise BucketInUse(
            f"bucket {found.id} still has objects: {counts}; committed ones are relocated while it is drained, "
            "destroyed ones are deleted after the grace period, and prepared ones after their time limit"
        )
    refuse_log_in(view, found.id)
    return Decision(removal(listed, found), None)


def refuse_log_in(view: ImageView, bucket_id: int) -> None:
    """Raises BucketInUse if a node has its write-ahead log in the bucket."""
    for node in view.nodes.values():
        if node.wal_location.startswith(f"bucket:{bucket_id}/"):
            raise BucketInUse(f"node {node.node_id} has its write-ahead log in bucket {bucket_id}")


def removal(listed: BucketList, found: BucketDefinition) -> tuple[Record, ...]:
    """Returns the record of a list in which the bucket is REMOVED."""
    strategy = replace(
        listed.strategy, order=tuple(each for each in listed.strategy.order if each != found.id)
    )
    after = replace(_with(listed, [replace(found, state=BucketState.REMOVED)]), strategy=strategy)
    return _changed(listed, after)


def decide_set_write_strategy(view: ImageView, command: SetWriteStrategy, now_ms: int) -> Decision[None]:
    listed = bucket_list_of(view)
    strategy = command.strategy
    _check_copies(listed, strategy)
    if len(set(strategy.order)) < len(strategy.order):
        raise CommandMalformed(f"the order {list(strategy.order)} names a bucket twice")
    for bucket_id in strategy.order:
        _found(listed, bucket_id)
    has_copies = listed.has_copies or strategy.is_replication
    return Decision(_changed(listed, replace(listed, strategy=strategy, has_copies=has_copies)), None)


def _check_copies(listed: BucketList, strategy: WriteStrategy) -> None:
    """Raises CommandMalformed, StrategyNotAvailable."""
    if not strategy.is_replication:
        if (strategy.copies, strategy.copies_min) != (1, 0):
            raise CommandMalformed(
                f"{strategy.name.value} puts each object into one bucket: leave out copies"
            )
        return
    if strategy.copies < 2 or not 0 <= strategy.copies_min <= strategy.copies:
        raise CommandMalformed(
            f"{strategy.copies} copies with a minimum of {strategy.copies_min} are impossible; give at least 2"
            " copies, and at most as many as their minimum"
        )
    if len(listed.writable) < strategy.copies:
        raise StrategyNotAvailable(
            f"{strategy.copies} copies of each object need as many writable buckets, and there are"
            f" {len(listed.writable)}; add another one first (siltstone buckets add)"
        )


def check_buckets_writable(view: ImageView, bucket_ids: Iterable[int]) -> None:
    """Raises BucketNotWritable unless new objects may be put into all of the buckets. In a store from before the list
    every bucket is writable."""
    listed = bucket_list_of(view)
    if not listed.buckets:
        return
    for bucket_id in sorted(set(bucket_ids)):
        found = listed.bucket(bucket_id)
        if found is None or not found.is_writable:
            what = "is not listed" if found is None else f"is {found.state.value}"
            raise BucketNotWritable(f"bucket {bucket_id} {what}: no new objects are put there; choose again")


def _with(listed: BucketList, changed: Iterable[BucketDefinition]) -> BucketList:
    """Returns the list with these buckets, which replace those with the same ids. Raises TooManyBuckets."""
    by_id = {each.id: each for each in (*listed.buckets, *changed)}
    if len(by_id) > BUCKETS_MAX:
        raise TooManyBuckets(f"a store has at most {BUCKETS_MAX} buckets, and this would be one more")
    return replace(listed, buckets=tuple(by_id[bucket_id] for bucket_id in sorted(by_id)))


def _changed(before: BucketList, after: BucketList) -> tuple[Record, ...]:
    return () if before == after else (KeySet(BUCKETS_KEY, encode_bucket_list(after)),)


def _check_weight(weight: int) -> None:
    if not 1 <= weight <= WEIGHT_MAX:
        raise CommandMalformed(f"a bucket of weight {weight} is impossible; give 1 to {WEIGHT_MAX:,}")


def _found(listed: BucketList, bucket_id: int) -> BucketDefinition:
    """Raises BucketNotListed."""
    found = listed.bucket(bucket_id)
    if found is None or found.is_removed:
        known = ", ".join(map(str, listed.urls)) or "none"
        raise BucketNotListed(f"there is no bucket {bucket_id}; the store has {known}")
    return found
