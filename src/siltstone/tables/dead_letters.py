"""Shows the dead letters of a table: how many have which reason, and some of them, read from their own table.

Reading is bounded: reasons are counted among the first records, and few records are returned. ``replaying`` tries dead
letters again.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

import msgspec

from siltstone.tables.formats.port import LoadedTable, TableUse, folder_of
from siltstone.tables.layout import REASON
from siltstone.tables.reading import opened_file
from siltstone.tables.replaying import OTHER_REASONS, REASONS_MAX, DeadLetter, dead_letters_of

COUNTED_MAX = 200_000
"""So many dead letters have their reasons counted: a second of reading one column."""


class DeadLettersShown(msgspec.Struct, frozen=True):
    """``rows``: how many there are; ``counted``: how many were looked at for ``reasons``, the most frequent first.
    ``letters``: the dead letters that have the wanted reason, in the order of the files."""

    rows: int
    counted: int
    reasons: Mapping[str, int]
    letters: tuple[DeadLetter, ...]


def shown_dead_letters(
    table: LoadedTable, location: str, letters_max: int, reason: str = "", counted_max: int = COUNTED_MAX
) -> DeadLettersShown:
    """``table`` has the dead letters, below ``location``. ``reason``: only letters with this reason are returned.
    Raises TableFileRefused, TableHasUnknownFeatures, and what the store raises."""
    table.refuse_unknown_features(TableUse.READ)
    folder = folder_of(table.name)
    reasons: Counter[str] = Counter()
    letters: list[DeadLetter] = []
    counted = 0
    for file in table.files():
        if counted >= counted_max:
            break
        with opened_file(location, folder, file) as opened:
            for rows in opened.batches([REASON]):
                count_reasons(reasons, rows.column(REASON).to_pylist())
                counted += rows.num_rows
        if len(letters) < letters_max:
            with opened_file(location, folder, file) as opened:
                for rows in opened.batches():
                    record = {name: rows.column(name) for name in rows.schema.names}
                    wanted = (each for each in dead_letters_of(record) if reason in ("", each.reason))
                    letters += islice(wanted, letters_max - len(letters))
                    if len(letters) >= letters_max:
                        break
    return DeadLettersShown(table.rows, counted, dict(reasons.most_common()), tuple(letters))


def count_reasons(reasons: Counter[str], found: list[str | None]) -> None:
    """Counts up to REASONS_MAX reasons one by one, and all others together."""
    for each, number in Counter(found).items():
        name = each or ""
        reasons[name if name in reasons or len(reasons) < REASONS_MAX else OTHER_REASONS] += number
