"""JSON values whose columns are found, in a scan: each field is a column, as in a table with
``siltstone.table.columns=infer``.

===============  ===========================================================================================
column           holds
===============  ===========================================================================================
each field       its value; null where a value lacks the field
_rescued_data    as JSON, what no column could take: ``{"ms":"slow"}``; a value that is no object, whole
kafka            the record: topic, partition, offset, timestamp, key, and headers if they are asked for
===============  ===========================================================================================
"""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.record_columns.row_columns import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC, VALUE
from siltstone.scanning.values import BadValueCount, judge_bad_values, rows_schema
from siltstone.topic_configs.table_export import KAFKA
from siltstone.value_formats.decoders.json import payload_of
from siltstone.value_formats.decoders.rescuing import RescuingDecoder
from siltstone.value_formats.value_format import BadValues, ValueFormat

_OF_RECORD = (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY)


def columns_to_read(*, with_headers: bool) -> tuple[str, ...]:
    """Returns the columns of records that such a scan reads."""
    return (*_OF_RECORD, VALUE, HEADERS) if with_headers else (*_OF_RECORD, VALUE)


class FoundValueColumns:
    """Makes the rows of the record batches of one unit."""

    def __init__(self, columns: tuple[str, ...], value_format: ValueFormat, tally: BadValueCount) -> None:
        found = value_format.found or ()
        self._schema = rows_schema(columns, value_format)
        self._names = [each.name for each in found]
        self._decoder = RescuingDecoder(found)
        self._on_bad = value_format.on_bad
        self._tally = tally
        self.read_columns = columns
        """The columns of records to read."""

    def decoded(self, batch: Any, partition: str) -> Any:
        """Returns the record batch with a column for each field. Raises BadValueFound."""
        arrow = require_arrow()
        values = batch.column(self.read_columns.index(VALUE))
        found = self._decoder.decode(values)
        rescued = found.rescued
        if found.bad and self._on_bad is BadValues.RESCUE:
            rescued = _with_whole(rescued, [each.row for each in found.bad], values)
        elif found.bad:
            offsets = batch.column(self.read_columns.index(OFFSET))
            judge_bad_values(
                found.bad, offsets, partition, None if self._on_bad is BadValues.FAIL else self._tally
            )
        kafka = self._schema.field(KAFKA).type
        parts = [batch.column(self.read_columns.index(each.name)) for each in kafka]
        record = arrow.StructArray.from_arrays(parts, fields=list(kafka))
        columns = [*(found.columns[name] for name in self._names), rescued, record]
        return arrow.RecordBatch.from_arrays(columns, schema=self._schema)


def _with_whole(rescued: Any, rows: Sequence[int], values: Any) -> Any:
    texts = rescued.to_pylist()
    for row in rows:
        texts[row] = as_json(payload_of(values[row].as_py()))
    return require_arrow().array(texts, require_arrow().string())


def as_json(value: bytes) -> str:
    """Returns a value that is no object as JSON: JSON as it is, text as a string, and bytes that are no text as
    ``{"base64": …}``."""
    try:
        text = value.decode()
        msgspec.json.decode(text)
    except UnicodeDecodeError:
        return msgspec.json.encode({"base64": base64.b64encode(value).decode()}).decode()
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode(text).decode()
    return text
