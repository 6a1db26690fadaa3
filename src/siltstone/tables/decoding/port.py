"""The port of decoders, as an export needs them.

A decoder is given the values of many records at once, as an Arrow binary array, and returns columns of the same length,
and the rows that it could not decode. It never raises because of a record: one bad record must not keep its neighbours
out of the table. What it returns follows from the bytes alone, so that a task that runs twice writes the same file.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
import numpy as np

from siltstone.record_columns.kernels.columns import Flags
from siltstone.topic_configs.column_types import ColumnType
from siltstone.value_formats.decoding import BadValue
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind
from siltstone.value_formats.wire import SchemaName

REASON_CHARACTERS_MAX = 200


class DecodedColumns(msgspec.Struct, frozen=True):
    """``columns`` are Arrow arrays by name; at the rows of ``bad`` their content does not matter. ``bad`` maps a row to
    the reason. ``needed`` names schemas that the decoder was not given; the columns have then no meaning. ``found`` has
    the types of fields that are no columns, where columns are found from the values. Of change events, ``deletes`` is a
    pyarrow.BooleanArray of the rows that remove a row of the table, and ``skipped`` are rows that make and remove no
    row of their key; ``truncates``, some of these, remove all rows before them. ``sequences`` is a pyarrow.Int64Array,
    if changes are ordered by a field: null for a removal that has none."""

    columns: dict[str, Any]
    bad: dict[int, str] = {}
    needed: tuple[SchemaName, ...] = ()
    found: dict[str, ColumnType] = {}
    deletes: Any = None
    skipped: frozenset[int] = frozenset()
    truncates: frozenset[int] = frozenset()
    sequences: Any = None

    def are_good(self, count: int) -> Flags:
        flags = np.ones(count, dtype=np.bool_)
        flags[list(self.bad)] = False
        return flags


class ColumnDecoder(Protocol):
    def decode(self, values: Any) -> DecodedColumns:
        """Decodes a pyarrow.BinaryArray. A null, which is the value of a tombstone, is decoded to nulls."""
        ...


def bad_rows(bad: Iterable[BadValue]) -> dict[int, str]:
    """Returns the reasons by row, as long as a dead letter has them."""
    return {each.row: each.reason[:REASON_CHARACTERS_MAX] for each in bad}


def text_of(values: Any) -> tuple[Any, dict[int, str]]:
    """Returns a binary array as an array of texts, and the rows that are not UTF-8, which are null."""
    found = _TEXTS.decode(values)
    return found.column, bad_rows(found.bad)


_TEXTS = open_decoder(settle_format(FormatKind.STRING))
