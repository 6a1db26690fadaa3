import numpy as np
import pytest

from siltstone.kafka_protocol.batch_errors import BatchLengthWrong, RecordCountWrong, UnsupportedMagic
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.maintenance.key_compaction.kernels import plain
from siltstone.maintenance.key_compaction.kernels.columns import read_only
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import DamagedFrame, encode_frame_header
from support.kafka.kafka_batches import RECORDS, with_header

KEY = bytes(range(16))


def test_siphash_is_that_of_its_authors() -> None:
    """The first of their vectors for 128 bits: the key 00 … 0f, the inputs nothing and 00."""
    halves = [np.array(plain.siphash(data, KEY), dtype="<u8").tobytes().hex() for data in (b"", b"\0")]
    assert halves == ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"]


def test_another_key_gives_another_hash() -> None:
    assert plain.siphash(b"key", KEY) != plain.siphash(b"key", bytes(16))


@pytest.mark.parametrize(
    ("error", "stream_id", "changes"),
    [
        (BatchLengthWrong, 5, {"base_offset": 8}),
        (BatchLengthWrong, 5, {"last_offset_delta": 3}),
        (DamagedFrame, 6, {}),
        (RecordCountWrong, 5, {"record_count": 2}),
        (UnsupportedMagic, 5, {"magic": 1}),
    ],
    ids=["base offset", "last offset", "another stream", "record count", "magic"],
)
def test_a_batch_that_is_not_what_its_frame_says(
    error: type[Exception], stream_id: int, changes: dict[str, int]
) -> None:
    batch = with_header(build_batch(RECORDS), **changes)
    block = encode_frame_header(RecordBatch(5, 1, 0, 3, 3, -1, -1, batch)) + batch
    with pytest.raises(error):
        plain.scan_batches(read_only(block), stream_id)
