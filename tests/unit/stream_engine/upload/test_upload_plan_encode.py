from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.stream_engine.tail.cache_block import CachedBatch
from siltstone.stream_engine.upload.upload_plan import encode_object, new_object
from support.engine.batches import batch
from support.engine.objects import index_of, read_object


def test_an_encoded_object_reads_back_and_its_commit_says_what_it_holds():
    batches = {
        stream_id: [batch(stream_id, offset, 2, 700, timestamp_ms=offset) for offset in range(10, 16, 2)]
        for stream_id in (4, 7)
    }
    streams = {
        stream_id: [CachedBatch(one, encode_frame_header(one)) for one in of]
        for stream_id, of in batches.items()
    }
    encoded = encode_object(streams, (4, 7), 1024)
    data = b"".join(encoded.buffers)
    assert read_object(data) == [*batches[4], *batches[7]]
    new = new_object(encoded, 12)
    assert (new.object_id, new.size_bytes) == (12, len(data))
    assert [(r.stream_id, r.start_offset, r.end_offset) for r in new.ranges] == [(4, 10, 16), (7, 10, 16)]
    assert [r.largest_timestamp_ms for r in new.ranges] == [15, 15]
    assert sum(r.size_bytes for r in new.ranges) == sum(entry.size_bytes for entry in index_of(data))


def test_only_the_streams_named_are_in_the_object():
    one, other = batch(1, 0), batch(2, 0)
    streams = {
        1: [CachedBatch(one, encode_frame_header(one))],
        2: [CachedBatch(other, encode_frame_header(other))],
    }
    assert read_object(b"".join(encode_object(streams, (2,), 1024).buffers)) == [other]
