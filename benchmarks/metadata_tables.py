"""(mt) The metadata as tables: a million objects, read from SQLite and from PostgreSQL.

A process of its own reads, so that the peak memory is the reader's. The image is what any broker of the store holds,
too; the tables come on top of it.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from siltstone.metadata.log_entry import LogEntry, LogPosition, encode_entry
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.opening import open_log
from siltstone.model.limits import MIB
from support.metadata.large_image import large_image
from support.metadata.postgres_server import find_programs, running_postgres_server

TITLE = "(mt) the metadata of 1,000,000 objects as tables"
OBJECTS, STREAMS, STREAMS_PER_SET = 1_000_000, 20_000, 100
APPEND_ID = "ab" * 16


def run() -> list[Row]:
    rows: list[Row] = []
    with folder() as place:
        for name, url in _places(place):
            _fill(url)
            rows += _measured(name, url)
    return rows


@contextmanager
def _postgres() -> Iterator[str]:
    with running_postgres_server() as server:
        yield server.tcp_url(server.new_schema())


def _places(place: Path) -> Iterator[tuple[str, str]]:
    (place / "bucket").mkdir()
    yield "SQLite", f"sqlite://{place}/metadata.sqlite"
    if find_programs() is not None:
        with _postgres() as url:
            yield "PostgreSQL", url


def _fill(url: str) -> None:
    with closing(open_log(url)) as log:
        log.append(encode_entry(LogEntry(APPEND_ID, ())), LogPosition())
        image = msgspec.structs.replace(large_image(STREAMS, OBJECTS, STREAMS_PER_SET), append_id=APPEND_ID)
        log.save_snapshot(image.position, encode_snapshot(image))


def _measured(name: str, url: str) -> list[Row]:
    command = [sys.executable, "-m", "benchmarks.metadata_tables", url]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    ranges, read_s, image_mib, objects_s, ranges_s, page_s, peak_mib = map(float, child.stdout.split())
    return [
        Row(f"{name}: reading the image", f"{read_s:.1f} s, {image_mib:,.0f} MiB"),
        at_most(f"{name}: objects, all columns", objects_s, 3, " s"),
        Row(f"{name}: object_ranges, all columns", f"{ranges_s:.1f} s", f"{ranges:,.0f} rows"),
        at_most(f"{name}: 50 objects from the middle", page_s, 0.3, " s"),
        at_most(f"{name}: peak memory of tables beside the image", peak_mib - image_mib, 300, " MiB"),
    ]


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB


def _seconds(began: float) -> float:
    return time.monotonic() - began


def main(url: str) -> None:
    buckets = None if url.startswith("sqlite") else {0: Path.cwd().as_uri()}
    began = time.monotonic()
    tables = siltstone.metadata(url, buckets=buckets)
    read_s, image_mib, began = _seconds(began), _peak_mib(), time.monotonic()
    assert sum(batch.num_rows for batch in tables.objects.batches()) == OBJECTS
    objects_s, began = _seconds(began), time.monotonic()
    ranges = sum(batch.num_rows for batch in tables.object_ranges.batches())
    ranges_s, began = _seconds(began), time.monotonic()
    assert len(tables.objects.rows(limit=50, offset=OBJECTS // 2)) == 50
    print(ranges, read_s, image_mib, objects_s, ranges_s, _seconds(began), _peak_mib())


if __name__ == "__main__":
    main(sys.argv[1])
