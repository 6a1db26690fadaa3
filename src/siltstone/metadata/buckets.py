"""Defines the list of a store's buckets, under the key ``store/buckets``, and the commands that write it.

The value of the key is one line of JSON, here broken for the page:

    {"format":1,"buckets":[{"id":0,"url":"file:///data/bucket","weight":1,"state":"writable"},
                           {"id":1,"url":"s3://second","weight":1,"state":"writable"}],
     "strategy":{"name":"failover","order":[0,1],"copies":1}}

Format 2, which is written once the strategy was replication, has ``"copies_min"`` in the strategy and
``"has_copies":true`` as the last field. A program without copies refuses it, because it would read and delete every
object in one bucket only.

The list is written as a whole, so buckets and strategy always fit together. Buckets are sorted by id. A process opens
the bucket at the URL in its own settings (``buckets.N``) if they have one, since endpoints and credentials may differ
between machines, and otherwise at the URL in the list. The commands are decided in ``decisions.buckets``.
"""

from functools import lru_cache

import msgspec

from siltstone.metadata.commands import Command
from siltstone.metadata.image import ImageView
from siltstone.model.buckets import (
    BucketDefinition,
    BucketList,
    BucketState,
    StrategyType,
    WriteStrategy,
)
from siltstone.model.errors import CorruptData

BUCKETS_KEY = "store/buckets"
BUCKETS_FORMAT = 1
COPIES_FORMAT = 2
BUCKETS_MAX = 64
"""The most buckets of a store. Every process keeps a client for each that it uses."""

WEIGHT_MAX = 1_000_000


class DamagedBucketList(CorruptData):
    """The list of buckets cannot be decoded, or was written by a newer version of this program."""


class RegisterBuckets(Command[BucketList], frozen=True):
    """→ BucketList, after the command. Lists the buckets of a node's settings that are not listed yet: the one in which
    the node puts new objects (``default_id``) as WRITABLE if the list was empty, each other bucket as READ_ONLY, so
    that a store from before the list continues as it was. Idempotent."""

    urls: dict[int, str]
    default_id: int


class AddBucket(Command[BucketDefinition], frozen=True):
    """→ BucketDefinition. Lists a bucket under the next free id, READ_ONLY, until it is marked as the store's and made
    WRITABLE by SetBucketState. A URL that is listed already keeps its id and state, and gets the weight. Refused with
    TooManyBuckets."""

    url: str
    weight: int = 1


class SetBucketState(Command[None], frozen=True):
    """→ None. Refused with BucketNotListed, also for a bucket that was removed, and with LastWritableBucket when no
    other bucket could take new objects, or too few for the copies of each. Idempotent."""

    bucket_id: int
    state: BucketState


class RemoveBucket(Command[None], frozen=True):
    """→ None. From now on the bucket does not belong to the store, and its id is never assigned again. Refused with
    BucketNotListed, and with BucketInUse unless it is drained or read-only, the metadata names no object there, not
    even an object that waits for its deletion, and no node has its write-ahead log there. Idempotent."""

    bucket_id: int


class SetWriteStrategy(Command[None], frozen=True):
    """→ None. From now on new objects are put by this strategy; existing objects stay where they are. Refused with
    BucketNotListed when ``order`` names an unknown bucket, and with StrategyNotAvailable when fewer buckets are
    writable than each object has to be in. Idempotent."""

    strategy: WriteStrategy


class _Strategy(msgspec.Struct):
    """The strategy as format 1 has it."""

    name: StrategyType
    order: tuple[int, ...]
    copies: int


class _Line(msgspec.Struct):
    format: int
    buckets: tuple[BucketDefinition, ...]
    strategy: _Strategy


class _LineWithCopies(msgspec.Struct):
    format: int
    buckets: tuple[BucketDefinition, ...]
    strategy: WriteStrategy
    has_copies: bool = False


def encode_bucket_list(listed: BucketList) -> bytes:
    if listed.has_copies:
        return msgspec.json.encode(_LineWithCopies(COPIES_FORMAT, listed.buckets, listed.strategy, True))
    strategy = listed.strategy
    assert strategy.copies_needed == strategy.copies == 1, "copies without has_copies"
    as_before = _Strategy(strategy.name, strategy.order, strategy.copies)
    return msgspec.json.encode(_Line(BUCKETS_FORMAT, listed.buckets, as_before))


def decode_bucket_list(value: bytes) -> BucketList:
    """Raises DamagedBucketList."""
    try:
        line = msgspec.json.decode(value, type=_LineWithCopies)
    except msgspec.MsgspecError as error:
        raise DamagedBucketList(f"the list of buckets cannot be decoded: {error}") from error
    if not BUCKETS_FORMAT <= line.format <= COPIES_FORMAT:
        raise DamagedBucketList(
            f"the list of buckets has format {line.format}; this program reads {COPIES_FORMAT}: install a newer one"
        )
    return BucketList(line.buckets, line.strategy, line.has_copies)


_decode_once = lru_cache(maxsize=16)(decode_bucket_list)
"""The list changes rarely, and every upload asks for it."""


def bucket_list_of(image: ImageView) -> BucketList:
    """Returns the store's buckets and strategy; an empty list before a node of this version has started. Raises
    DamagedBucketList."""
    stored = image.keys.get(BUCKETS_KEY)
    return BucketList() if stored is None else _decode_once(stored)
