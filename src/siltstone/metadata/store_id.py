"""The id of a store: a random token. It is put into the metadata once and never changes; starting nodes copy it into
the write-ahead log's folder and into the buckets (``object_formats.identity``), to recognise those of another store.

The metadata also keeps which buckets a node has claimed, with their URLs, to recognise a bucket that was exchanged for
an empty one."""

from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import ImageView
from siltstone.runtime.randomness import Random, random_token

STORE_ID_KEY = "store/id"

RESTORED_KEY = "store/restored"
"""The key under which a restored store has where it comes from: a JSON object with store, version and time."""


def store_id_of(image: ImageView) -> str | None:
    """Returns the store's id; None before the first start of a node puts it."""
    stored = image.keys.get(STORE_ID_KEY)
    return None if stored is None else stored.decode()


def put_store_id(rng: Random) -> PutKey:
    """Returns a command that puts a new id unless there is one. Its result is the store's id, encoded."""
    return PutKey(STORE_ID_KEY, random_token(rng).encode())


def put_claimed_url(bucket_id: int, url: str) -> PutKey:
    """Returns a command that remembers that a node has marked the bucket as the store's, at this URL."""
    return PutKey(_claim_key(bucket_id), url.encode(), overwrite=True)


def claimed_url(image: ImageView, bucket_id: int) -> str | None:
    """Returns the URL at which the bucket was last claimed; None if no node has claimed it."""
    stored = image.keys.get(_claim_key(bucket_id))
    return None if stored is None else stored.decode()


def _claim_key(bucket_id: int) -> str:
    return f"store/bucket/{bucket_id}"
