"""What is wrong with the data of a stream, told from what is wrong with its store.

The first is the result's ``failure``: the stream is left as it is and the others go on (G32). The second is raised,
so that the task is tried again.
"""

from siltstone.kafka_protocol.batch_errors import (
    DecompressedTooLarge,
    NotOneBatch,
    RecordCountWrong,
    UnknownCodec,
    UnsupportedMagic,
)
from siltstone.model.errors import CorruptData
from siltstone.object_store.port import ObjectNotFound

BAD_BATCH = (CorruptData, UnsupportedMagic, UnknownCodec, DecompressedTooLarge, RecordCountWrong, NotOneBatch)


class StreamNotCompactable(CorruptData):
    """Something in the stream cannot be read; where, and what."""


BAD_DATA = (*BAD_BATCH, ObjectNotFound)
