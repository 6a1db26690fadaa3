"""The columns of a scan by name. They are those of Spark's connector for Kafka, so that its programs need no change
[Spark: KafkaRecordToRowConverter].

============= ========================= =====================================================================
column        Arrow's type              holds
============= ========================= =====================================================================
key           binary                    null for a record without a key
value         binary                    null for a tombstone
topic         string                    the name of the topic
partition     int32                     the number of the partition
offset        int64                     the record's offset
timestamp     timestamp[us, UTC]        the record's time in ms; with LogAppendTime the batch's largest time
timestampType int32                     0: CreateTime, 1: LogAppendTime
headers       list<struct<key, value>>  only on request; null for a record without headers
============= ========================= =====================================================================
"""

from collections.abc import Sequence

from siltstone.model.errors import InvalidRequest

KEY, VALUE, TOPIC, PARTITION, OFFSET = "key", "value", "topic", "partition", "offset"
TIMESTAMP, TIMESTAMP_TYPE, HEADERS = "timestamp", "timestampType", "headers"

ROW_COLUMNS = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE)
"""The columns of a scan that names none."""

ALL_COLUMNS = (*ROW_COLUMNS, HEADERS)


class ColumnUnknown(InvalidRequest):
    """A scan asks for a column that records do not have, or for one twice."""


def chosen_columns(wanted: Sequence[str] | None, *, with_headers: bool = False) -> tuple[str, ...]:
    """Returns the columns of a scan, in the order in which they are wanted; None: all, the headers only
    ``with_headers``. Raises ColumnUnknown."""
    if wanted is None:
        return ALL_COLUMNS if with_headers else ROW_COLUMNS
    if isinstance(wanted, str):
        wanted = [name.strip() for name in wanted.split(",")]
    unknown = [name for name in wanted if name not in ALL_COLUMNS]
    if unknown or len(set(wanted)) != len(wanted) or not wanted:
        reason = f"has no column {unknown[0]!r}" if unknown else "needs each column once, and at least one"
        raise ColumnUnknown(
            f"columns={','.join(wanted)!r}: a scan {reason}; choose from {', '.join(ALL_COLUMNS)}"
        )
    return tuple(wanted)
