"""Reads the statistics of a data file from its footer, as they are stored: numbers and bytes.

A time, a date or a decimal is a number there, and stays one: Python's calendar has the years 1 to 9999 only, and a
single value that it does not have must not stop a table. A bound that is not known is left out; then a reader opens the
file, which it would have passed over.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

Raw = bool | int | float | bytes

NAN_NOTE = b"siltstone.nan"
"""The key of a note in the footer of a file with columns of floats: a JSON list of the paths of those in which NaN is.
A footer's bounds pass over NaN, and most engines order NaN above all numbers, so without the note no upper bound of
such a column may be given."""

_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000
_CHARACTER_MAX = 0x10FFFF


class ColumnStatistics(msgspec.Struct):
    """The statistics of one column in all row groups of a file. ``bounds`` are the least and the largest value; None if
    there is no value, or if they are not known. ``nulls`` is None if it is not known."""

    path: str
    size_bytes: int = 0
    values: int = 0
    nulls: int | None = 0
    bounds: tuple[Raw, Raw] | None = None
    is_bounded: bool = True


def column_statistics(footer: Any) -> Iterator[ColumnStatistics]:
    """Yields the statistics of each column of a pyarrow.parquet.FileMetaData."""
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    for at in range(footer.num_columns):
        found = ColumnStatistics(footer.schema.column(at).path)
        for group in groups:
            _add(found, group.column(at))
        if not found.is_bounded:
            found.bounds = None
        yield found


def _add(found: ColumnStatistics, chunk: Any) -> None:
    found.size_bytes += chunk.total_compressed_size
    found.values += chunk.num_values
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        found.nulls, found.is_bounded = None, False
        return
    if found.nulls is not None:
        found.nulls += statistics.null_count
    if not statistics.has_min_max:
        # Either there is nothing but nulls, and NaN, which no bound has; or the values are too long for a footer.
        is_number = statistics.physical_type in ("FLOAT", "DOUBLE")
        found.is_bounded &= is_number or statistics.null_count == chunk.num_values
        return
    least, most = _ordered(statistics.min_raw), _ordered(statistics.max_raw)
    if statistics.physical_type == "FIXED_LEN_BYTE_ARRAY":  # decimals, which bytes do not order
        least, most = (int.from_bytes(each, "big", signed=True) for each in (least, most))
    if found.bounds is not None:
        least, most = min(least, found.bounds[0]), max(most, found.bounds[1])
    found.bounds = (least, most)


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def split_offsets(footer: Any) -> list[int]:
    """Returns where the row groups begin."""
    found = []
    for at in range(footer.num_row_groups):
        chunk = footer.row_group(at).column(0)
        begins = [chunk.data_page_offset]
        if chunk.has_dictionary_page:
            begins.append(chunk.dictionary_page_offset)
        found.append(min(begins))
    return sorted(found)


def leaves(fields: Iterable[Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the path and the pyarrow type of each field that is no struct. A list or a map is one of them."""
    for field in fields:
        path = (*before, field.name)
        if pa.types.is_struct(field.type):
            yield from leaves(field.type, path)
        else:
            yield path, field.type


def paths_with_nan(footer: Any) -> set[str] | None:
    """Returns the columns that have NaN by the note of the footer; None if nobody has looked."""
    note = (footer.metadata or {}).get(NAN_NOTE)
    return None if note is None else set(msgspec.json.decode(note, type=list[str]))


def cut_above(text: str, length: int | None) -> str | None:
    """Returns the least text of ``length`` characters that is not below the text."""
    if length is None or len(text) <= length:
        return text
    kept = text[:length]
    while kept:
        last = ord(kept[-1])
        if last < _CHARACTER_MAX:
            return kept[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)
        kept = kept[:-1]
    return None
