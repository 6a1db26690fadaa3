"""Settings for little data: a year of flights is 30 MB, while the default makes objects of about 100 MiB.

The sizes are computed from the amount of data, near the proportions of the defaults, so that any number of flights
makes about thirty stream set objects. They are written to ``siltstone.toml`` of the store, so that commands that are
tried on the store afterwards use them, too.
"""

from collections.abc import Sequence
from pathlib import Path

from siltstone.cli.demo.flights import Flight
from siltstone.model.limits import KIB, MIB
from siltstone.offline.opening.settings import SETTINGS_FILE
from siltstone.server.settings.node import NodeSettings, load_node_settings

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


def write_settings(folder: Path, flights: Sequence[Flight]) -> NodeSettings:
    """Makes the folder and writes its ``siltstone.toml``. Returns the settings."""
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
    return load_node_settings(folder, environment={})


def batch_bytes(settings: NodeSettings) -> int:
    """Size of a producer's batch before compression, about 64 KiB for the whole year: small enough that every object
    holds batches of all partitions, as in a store with many producers."""
    return settings.engine.upload.cache_block_bytes_max * 3 // 16


def _bytes_of(flights: Sequence[Flight]) -> int:
    """Returns the size of the flights in objects: lz4 compresses them to about a third, as measured."""
    return sum(len(flight.line) for flight in flights) // 3
