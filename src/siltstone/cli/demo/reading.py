"""Reading a stream as a consumer does: from its beginning, fetch by fetch, to its end."""

from collections.abc import AsyncIterator

from siltstone.model.limits import MIB
from siltstone.model.record_batch import RecordBatch
from siltstone.server.components import Node

FETCH_BYTES = MIB
"""What a consumer's fetch usually asks for."""


async def read_whole_stream(node: Node, stream_id: int) -> AsyncIterator[RecordBatch]:
    """Takes the stream over, as whoever had it has closed it."""
    epoch = node.metadata.image.streams[stream_id].epoch
    stream = await node.engine.open_stream(stream_id, epoch + 1)
    offset = stream.start_offset
    while batches := await node.engine.read(stream, offset, FETCH_BYTES):
        for batch in batches:
            yield batch
        offset = batches[-1].end_offset
