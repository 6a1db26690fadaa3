"""The batches of one block, as columns: a row each, see ``kernels.columns``."""

from siltstone.kafka_protocol.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from siltstone.maintenance.key_compaction.rewriting.kernels import columns
from siltstone.maintenance.key_compaction.rewriting.kernels.columns import Bytes, Flags, Integers
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES


class Batches:
    """``data`` are the block's bytes, ``rows`` what was found in them; ``where`` says of which block, for errors."""

    __slots__ = (
        "are_control",
        "are_transactional",
        "data",
        "have_horizon",
        "have_log_append_time",
        "rows",
        "where",
    )

    def __init__(self, data: Bytes, rows: Integers, where: str) -> None:
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
        """Of the frames, in bytes."""
        return self.rows[:, columns.FRAME_END] - self.rows[:, columns.FRAME_AT]

    @property
    def codecs(self) -> Integers:
        return self.rows[:, columns.ATTRIBUTES] & CODEC_MASK

    def have_expired(self, now_ms: int) -> Flags:
        """Those whose tombstones, or marker, may go by now (G19)."""
        return self.have_horizon & (self.rows[:, columns.BASE_MS] <= now_ms)

    def payload(self, row: int) -> memoryview:
        """The batch itself, header and records."""
        start = int(self.rows[row, columns.FRAME_AT]) + FRAME_HEADER_BYTES
        return self.data.data[start : int(self.rows[row, columns.FRAME_END])]
