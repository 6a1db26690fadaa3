"""The batches of one block as columns, a row for each batch (``kernels.columns``).

``BAD_BATCH`` are the errors of batches that cannot be read. The functions of this package raise them as one
``UnreadableBatch``, which names the place.
"""

import msgspec

from siltstone.kafka_protocol.batch_errors import (
    DecompressedTooLarge,
    NotOneBatch,
    RecordCountWrong,
    UnknownCodec,
    UnsupportedMagic,
)
from siltstone.kafka_protocol.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from siltstone.model.errors import CorruptData
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import Bytes, Flags, Integers
from siltstone.record_columns.kernels.port import Kernels

BAD_BATCH = (CorruptData, UnsupportedMagic, UnknownCodec, DecompressedTooLarge, RecordCountWrong, NotOneBatch)


class BlockPlace(msgspec.Struct, frozen=True):
    """The place of a block, for error texts."""

    object_id: int
    position: int

    def __str__(self) -> str:
        return f"the block at {self.position} of object {self.object_id}"


class AnswerPlace(msgspec.Struct, frozen=True):
    """A broker's answer to a Fetch: the place of batches that are in no object yet."""

    address: str
    object_id: None = None

    def __str__(self) -> str:
        return f"an answer of the broker at {self.address}"


class UnreadableBatch(CorruptData):
    """A batch cannot be read as one of the stream's. ``object_id`` names the object that holds it; None for a batch
    that a broker sent."""

    def __init__(self, where: BlockPlace | AnswerPlace, what_is_wrong: str) -> None:
        super().__init__(what_is_wrong)
        self.object_id = where.object_id


def batches_of_block(
    data: Bytes, stream_id: int, where: BlockPlace | AnswerPlace, kernels: Kernels
) -> "Batches":
    """Returns the batches of a block, whose checksum the caller has verified. Raises UnreadableBatch."""
    try:
        return Batches(data, kernels.scan_batches(data, stream_id), where)
    except BAD_BATCH as cause:
        raise UnreadableBatch(where, f"{where} holds bytes that are not record batches: {cause}") from cause


class Batches:
    """The batches of a block. ``data`` are the block's bytes, ``rows`` the batch columns, ``where`` is the block's
    place for error texts."""

    __slots__ = (
        "are_control",
        "are_transactional",
        "data",
        "have_horizon",
        "have_log_append_time",
        "rows",
        "where",
    )

    def __init__(self, data: Bytes, rows: Integers, where: BlockPlace | AnswerPlace) -> None:
        self.data = data
        self.rows = rows
        self.where = where
        attributes = rows[:, columns.ATTRIBUTES]
        self.are_control: Flags = attributes & CONTROL_BIT != 0
        self.are_transactional: Flags = attributes & TRANSACTIONAL_BIT != 0
        self.have_horizon: Flags = attributes & DELETE_HORIZON_BIT != 0
        self.have_log_append_time: Flags = attributes & LOG_APPEND_TIME_BIT != 0

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, number: int) -> Integers:
        return self.rows[:, number]

    @property
    def base_offsets(self) -> Integers:
        return self.rows[:, columns.BASE_OFFSET]

    @property
    def end_offsets(self) -> Integers:
        return self.rows[:, columns.END_OFFSET]

    @property
    def record_counts(self) -> Integers:
        return self.rows[:, columns.RECORD_COUNT]

    @property
    def producer_ids(self) -> Integers:
        return self.rows[:, columns.PRODUCER_ID]

    @property
    def sizes(self) -> Integers:
        """The sizes of the frames in bytes."""
        return self.rows[:, columns.FRAME_END] - self.rows[:, columns.FRAME_AT]

    @property
    def codecs(self) -> Integers:
        return self.rows[:, columns.ATTRIBUTES] & CODEC_MASK

    def have_expired(self, now_ms: int) -> Flags:
        """Marks the batches whose delete horizon has passed, so that their tombstones or marker may be removed
        (G19)."""
        return self.have_horizon & (self.rows[:, columns.BASE_MS] <= now_ms)

    def payload(self, row: int) -> memoryview:
        """Returns the bytes of a batch, header and records."""
        start = int(self.rows[row, columns.FRAME_AT]) + FRAME_HEADER_BYTES
        return self.data.data[start : int(self.rows[row, columns.FRAME_END])]
