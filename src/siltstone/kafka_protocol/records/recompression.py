"""A batch with its records compressed another way: for a topic whose ``compression.type`` is not the producer's."""

import msgspec

from siltstone.kafka_protocol.batch_header import CODEC_MASK, Codec
from siltstone.kafka_protocol.records.building import seal_batch
from siltstone.kafka_protocol.records.reading import open_batch
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX


def recompress(
    buffer: Buffer, codec: Codec, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytearray:
    """A new batch; only the codec, the length and the CRC of the header change, and no record is read.

    It may be larger than the old one: the limit of the topic has to be held against it again. Raises what
    ``open_batch`` does.
    """
    header, data = open_batch(buffer, decompressed_bytes_max)
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal_batch(msgspec.structs.replace(header, attributes=attributes), data, header.record_count)
