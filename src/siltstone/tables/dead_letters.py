"""Shows the dead letters of a table: how many have which reason, and some of them, read from their own table.

Reading is bounded: reasons are counted among the first records, and few records are returned. ``replaying`` tries dead
letters again.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile

import msgspec

from siltstone.model.limits import MIB
from siltstone.tables.formats.port import LoadedTable, TableUse, folder_of
from siltstone.tables.layout import REASON
from siltstone.tables.reading import opened_file
from siltstone.tables.replaying import OTHER_REASONS, REASONS_MAX, DeadLetter, dead_letters_of

LETTER_BYTES_MAX = 64 * MIB
"""When the keys and values of the letters have so much together, no further one is returned: a record that does not fit
may be as large as its batch, DECOMPRESSED_BATCH_BYTES_MAX."""

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
    table: LoadedTable,
    location: str,
    letters_max: int,
    reason: str = "",
    counted_max: int = COUNTED_MAX,
    bytes_max: int = LETTER_BYTES_MAX,
) -> DeadLettersShown:
    """``table`` has the dead letters, below ``location``. ``reason``: only letters with this reason are returned.
    Raises TableFileRefused, TableHasUnknownFeatures, and what the store raises."""
    table.refuse_unknown_features(TableUse.READ)
    folder = folder_of(table.name)
    reasons: Counter[str] = Counter()
    letters: list[DeadLetter] = []
    counted = 0

    def has_room() -> bool:
        return len(letters) < letters_max and sum(map(_size_bytes, letters)) < bytes_max

    for file in table.files():
        if counted >= counted_max:
            break
        with opened_file(location, folder, file) as opened:
            for rows in opened.batches([REASON]):
                count_reasons(reasons, rows.column(REASON).to_pylist())
                counted += rows.num_rows
        if has_room():
            with opened_file(location, folder, file) as opened:
                for rows in opened.batches():
                    record = {name: rows.column(name) for name in rows.schema.names}
                    wanted = (each for each in dead_letters_of(record) if reason in ("", each.reason))
                    for each in takewhile(lambda _: has_room(), wanted):
                        letters.append(each)  # noqa: PERF402  each takes room of the next
                    if not has_room():
                        break
    return DeadLettersShown(table.rows, counted, dict(reasons.most_common()), tuple(letters))


def _size_bytes(letter: DeadLetter) -> int:
    return len(letter.key or b"") + len(letter.value or b"")


def count_reasons(reasons: Counter[str], found: list[str | None]) -> None:
    """Counts up to REASONS_MAX reasons one by one, and all others together."""
    for each, number in Counter(found).items():
        name = each or ""
        reasons[name if name in reasons or len(reasons) < REASONS_MAX else OTHER_REASONS] += number
