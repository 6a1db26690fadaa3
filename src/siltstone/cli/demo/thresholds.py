"""Settings for little data: a year of flights is 30 MB, a real store seals its blocks at 100 MiB.

The thresholds follow from the amount of data, in the proportions of the defaults or near them, so that any number of
flights comes to some thirty stream set objects. They are written to the store's own ``siltstone.toml``: commands tried
on the store afterwards find them there.
"""

from collections.abc import Sequence
from pathlib import Path

from siltstone.cli.demo.flights import Flight
from siltstone.model.limits import KIB, MIB
from siltstone.server.settings.store import SETTINGS_FILE, StoreSettings, load_settings

OBJECTS_WANTED = 32
CACHE_BLOCK_BYTES_MIN = 16 * KIB

_TEXT = """\
# Written by siltstone demo: thresholds for little data, so that dozens of objects appear.

[engine]
append_bytes_max = "1MiB"

[engine.wal]
segment_bytes = "8MiB"
capacity_bytes = "64MiB"

[engine.upload]
cache_block_bytes_max = {cache_block_bytes}
split_size_bytes = {split_size_bytes}
block_size_bytes = {block_size_bytes}

[compaction]
split_size_bytes = {cache_block_bytes}
memory_bytes = "8MiB"
"""


def write_settings(folder: Path, flights: Sequence[Flight]) -> StoreSettings:
    """Into the folder, which is made."""
    cache_block_bytes = min(MIB, max(CACHE_BLOCK_BYTES_MIN, _bytes_of(flights) // OBJECTS_WANTED))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS_FILE).write_text(
        _TEXT.format(
            cache_block_bytes=cache_block_bytes,
            split_size_bytes=cache_block_bytes // 2,
            block_size_bytes=cache_block_bytes // 64,
        ),
        encoding="utf-8",
    )
    return load_settings(folder, environment={})


def batch_bytes(settings: StoreSettings) -> int:
    """Of a producer, before compression: small enough that an object has batches of all partitions, as in a store with
    many producers. 64 KiB or so for the whole year."""
    return settings.engine.upload.cache_block_bytes_max * 3 // 16


def _bytes_of(flights: Sequence[Flight]) -> int:
    """In objects, as measured: the producer's compression makes about a third of a line."""
    return sum(len(flight.line) for flight in flights) // 3
