"""The store's own id: random, put into the metadata once, and from there into what belongs to the store."""

from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import ImageView
from siltstone.runtime.randomness import Random, random_token

STORE_ID_KEY = "store/id"


def store_id_of(image: ImageView) -> str | None:
    """None in metadata that no node has opened since there are such ids."""
    stored = image.keys.get(STORE_ID_KEY)
    return None if stored is None else stored.decode()


def put_store_id(rng: Random) -> PutKey:
    """Its result is the id that stands, encoded: this one, or the one that was there."""
    return PutKey(STORE_ID_KEY, random_token(rng).encode())
