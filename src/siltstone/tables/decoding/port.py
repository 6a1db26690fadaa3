"""The port of decoders, as an export needs them.

A decoder is given the values of many records at once, as an Arrow binary array, and returns columns of the same length,
and the rows that it could not decode. It never raises because of a record: one bad record must not keep its neighbours
out of the table. What it returns follows from the bytes alone, so that a task that runs twice writes the same file.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from siltstone.record_columns.kernels.columns import Flags
from siltstone.value_formats import decoding
from siltstone.value_formats.wire import SchemaName

REASON_CHARACTERS_MAX = 200


class DecodedColumns(msgspec.Struct, frozen=True):
    """``columns`` are Arrow arrays by name; at the rows of ``bad`` their content does not matter. ``bad`` maps a row to
    the reason. ``needed`` names schemas that the decoder was not given; the columns have then no meaning."""

    columns: dict[str, Any]
    bad: dict[int, str] = {}
    needed: tuple[SchemaName, ...] = ()

    def are_good(self, count: int) -> Flags:
        flags = np.ones(count, dtype=np.bool_)
        flags[list(self.bad)] = False
        return flags


class ColumnDecoder(Protocol):
    def decode(self, values: Any) -> DecodedColumns:
        """Decodes a pyarrow.BinaryArray. A null, which is the value of a tombstone, is decoded to nulls."""
        ...


def reason_of(failure: BaseException) -> str:
    """Says in one line why a value cannot be decoded."""
    return decoding.reason_of(failure)[:REASON_CHARACTERS_MAX]


def each_decoded(
    values: Any, decode: Callable[[bytes], object], failures: tuple[type[BaseException], ...]
) -> tuple[list[Any], dict[int, str]]:
    """Calls ``decode`` for each value that is not null. Returns the results, None for nulls and for values at which one
    of the ``failures`` was raised; and the reasons of these."""
    results: list[Any] = []
    bad: dict[int, str] = {}
    for row, value in enumerate(_values(values)):
        if value is None:
            results.append(None)
            continue
        try:
            results.append(decode(value))
        except failures as failure:
            results.append(None)
            bad[row] = reason_of(failure)
    return results, bad


def _values(values: Any) -> Iterator[bytes | None]:
    yield from values.to_pylist()


def text_of(values: Any) -> tuple[Any, dict[int, str]]:
    """Returns a binary array as an array of texts, and the rows that are not UTF-8, which are null."""
    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts, bad = each_decoded(values, bytes.decode, (UnicodeDecodeError,))
        return pa.array(texts, pa.string()), bad
