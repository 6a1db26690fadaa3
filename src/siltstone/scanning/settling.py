"""Settles the columns of a scan whose columns are found from JSON values (``columns="infer"``).

The listed columns come first, then the columns that the query has kept, then what a sample of the records has. What
is new is said: ``new field page: string``. No column changes its type, as in a table.
"""

import logging
from collections.abc import Callable, Iterable

from siltstone.record_columns.arrow import require_arrow
from siltstone.scanning.kept_columns import Columns, ColumnsPlace
from siltstone.scanning.request import ValueWish
from siltstone.scanning.sampling import SampledFields, sampled_fields
from siltstone.value_formats.column_arrays import column_field
from siltstone.value_formats.found_columns import extended, news
from siltstone.value_formats.value_format import FormatKind, ValueFormat, encode_type

log = logging.getLogger(__name__)


def found_format(
    wish: ValueWish, topics: str, sample: Callable[[], Iterable[bytes | None]]
) -> tuple[ValueFormat, tuple[str, ...]]:
    """Returns the format, and a line for each column that is new or takes values of several types. Raises
    KeptColumnsDamaged, and what the place of the columns and the sample raise."""
    sampled = sampled_fields(sample())
    if not wish.location:
        known = wish.listed
        columns = with_sample(wish.listed, (), sampled)
    else:
        known, columns = _kept(ColumnsPlace(wish.location), wish, sampled)
    there = {each.name for each in known}
    wide = [line for name, line in sampled.widened.items() if name not in there]
    lines = (*news(known, columns), *wide)
    if lines:
        log.info("columns of %s: %s", topics, "; ".join(lines))
    return _format_of(wish, columns), lines


def with_sample(listed: Columns, kept: Columns, sampled: SampledFields) -> Columns:
    """Returns the listed columns, then each kept column whose name is not listed, then the fields that the sample
    adds."""
    names = {each.name.lower() for each in listed}
    known = (*listed, *(each for each in kept if each.name.lower() not in names))
    return extended(known, sampled.fields, nests=True)


def _kept(place: ColumnsPlace, wish: ValueWish, sampled: SampledFields) -> tuple[Columns, Columns]:
    """Returns the columns that were known, and all; the place has the new ones, too."""
    while True:
        kept = place.newest()
        columns = with_sample(wish.listed, kept, sampled)
        found = columns[len(wish.listed) :]
        known = (*wish.listed, *kept)
        fresh = news(known, columns)
        if not fresh or place.keep(found):
            if fresh and kept:
                log.warning("columns were added in %s: %s", wish.location, "; ".join(fresh))
            return known, columns


def _format_of(wish: ValueWish, columns: Columns) -> ValueFormat:
    kind = require_arrow().struct([column_field(each.name, each.type) for each in columns])
    return ValueFormat(FormatKind.JSON, encode_type(kind), on_bad=wish.on_bad, found=columns)
