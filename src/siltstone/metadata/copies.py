"""Defines the commands about copies of objects in several buckets. ``decisions.copies`` decides them.

A copy is prepared before it is put, counts once it is added, and no longer counts when it is withdrawn. Every copy that
was prepared is deleted with its object.
"""

from siltstone.metadata.commands import Command, NewObject


class PrepareCopies(Command[tuple[int, ...]], frozen=True):
    """→ ids of the objects that may be copied. Prepares a further copy of each COMMITTED object in a bucket; other
    objects, and objects that are there already, are left out. From now on the copy is deleted with its object, so the
    caller may put it. Idempotent. Refused with BucketNotWritable."""

    job_id: int
    object_ids: tuple[int, ...]
    bucket_id: int


class AddCopies(Command[None], frozen=True):
    """→ None. From now on the objects are in this bucket, too, and may be read from it. Refused with ObjectNotExist
    unless each is COMMITTED and was prepared for a copy there; the caller then deletes what it has put. Idempotent."""

    job_id: int
    object_ids: tuple[int, ...]
    bucket_id: int


class WithdrawCopies(Command[tuple[int, ...]], frozen=True):
    """→ ids of the objects whose copy in the bucket no longer counts. The copies are missing or damaged. They are still
    deleted with their objects, and may be put and added again. An object that is not COMMITTED, or in no other bucket,
    is left as it is. Idempotent."""

    object_ids: tuple[int, ...]
    bucket_id: int


class AcceptLoss(Command[None], frozen=True):
    """→ None. The bytes of ``lost``, which are in the bucket and in no other, are given up. The new objects hold the
    same offsets without any record, so a read at a lost offset continues at the next record.

    Refused with BucketInUse unless the bucket takes no new objects and all ``lost`` are in it alone, and with what
    CommitCompaction is refused with. Idempotent."""

    job_id: int
    bucket_id: int
    lost: tuple[int, ...]
    stream_set_objects: tuple[NewObject, ...]
    stream_objects: tuple[NewObject, ...]


class GiveUpBucket(Command[None], frozen=True):
    """→ None. The bucket is lost for good. Objects that are in other buckets, too, stay without this one; objects that
    waited for their deletion there are forgotten, and prepared ones are destroyed. The bucket no longer belongs to the
    store.

    Refused with BucketNotListed, and with BucketInUse while it is writable, while it holds the only copy of a committed
    object (AcceptLoss comes first), or a write-ahead log. Idempotent."""

    bucket_id: int
