"""From which offset on a partition may have batches of transactions: one metadata key for each such partition. Pure.

    key      transactional/<topic id, 32 hex digits>/<partition>
    value    an offset, as decimal digits

A broker writes the key before it appends the first batch of a transaction to the partition, once and for all. So an
image that shows an object with such a batch has the key, too, and whatever reads objects without a broker knows whether
records may belong to a transaction that was aborted, or is not decided. Below the offset none does."""

from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import ImageView

KEY_PREFIX = "transactional/"


def put_transactional_from(topic_id: str, partition: int, offset: int) -> PutKey:
    """Returns the command; where an offset stands already, that one stays."""
    return PutKey(_key(topic_id, partition), str(offset).encode())


def transactional_from(image: ImageView, topic_id: str, partition: int) -> int | None:
    """Returns the offset; None if no transaction has written to the partition. A value that is no number counts as 0:
    all of the partition may have transactions."""
    stored = image.keys.get(_key(topic_id, partition))
    if stored is None:
        return None
    return int(stored) if stored.isdigit() else 0


def _key(topic_id: str, partition: int) -> str:
    return f"{KEY_PREFIX}{topic_id}/{partition}"
