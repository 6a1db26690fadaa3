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

    __slots__ = ("data", "rows", "where")

    def __init__(self, data: Bytes, rows: Integers, where: str) -> None:
        self.data = data
        self.rows = rows
        self.where = where

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

    @property
    def are_control(self) -> Flags:
        return self._bit(CONTROL_BIT)

    @property
    def are_transactional(self) -> Flags:
        return self._bit(TRANSACTIONAL_BIT)

    @property
    def have_horizon(self) -> Flags:
        return self._bit(DELETE_HORIZON_BIT)

    @property
    def have_log_append_time(self) -> Flags:
        return self._bit(LOG_APPEND_TIME_BIT)

    def have_expired(self, now_ms: int) -> Flags:
        """Those whose tombstones, or marker, may go by now (G19)."""
        return self.have_horizon & (self.rows[:, columns.BASE_MS] <= now_ms)

    def payload(self, row: int) -> memoryview:
        """The batch itself, header and records."""
        start = int(self.rows[row, columns.FRAME_AT]) + FRAME_HEADER_BYTES
        return self.data.data[start : int(self.rows[row, columns.FRAME_END])]

    def _bit(self, bit: int) -> Flags:
        flags: Flags = self.rows[:, columns.ATTRIBUTES] & bit != 0
        return flags
