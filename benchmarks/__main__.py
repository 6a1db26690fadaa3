"""``make bench``, or ``python -m benchmarks a b …`` for some of them."""

import sys
from collections.abc import Callable

from rich.console import Console as Terminal

from benchmarks import (
    append_large,
    append_small,
    bandwidth,
    bucket_log,
    buckets,
    change_events,
    cold_read,
    collecting,
    compaction,
    console,
    erasing,
    found_columns,
    group_members,
    kafka,
    kafka_network,
    key_compaction,
    killed_writers,
    maintenance_idle,
    metadata_tables,
    planning,
    producing,
    scanning,
    scanning_transactions,
    security,
    spark_latency,
    spark_reading,
    spark_real_time,
    spark_tables,
    spark_writing,
    starting,
    stream_object_compaction,
    transactions,
)
from benchmarks.cluster import failover, large_image, metadata_log, moves, node_processes
from benchmarks.support.report import Row, show

BENCHMARKS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "a": (append_large.TITLE, append_large.run),
    "b": (append_small.TITLE, append_small.run),
    "c": (compaction.TITLE, compaction.run),
    "d": (cold_read.TITLE, cold_read.run),
    "e": (planning.TITLE, planning.run),
    "f": (kafka_network.TITLE, kafka_network.run),
    "g": (stream_object_compaction.TITLE, stream_object_compaction.run),
    "h": (collecting.TITLE, collecting.run),
    "er": (erasing.TITLE, erasing.run),
    "i": (key_compaction.TITLE, key_compaction.run),
    "j": (maintenance_idle.TITLE, maintenance_idle.run),
    "k": (moves.TITLE, moves.run),
    "l": (failover.TITLE, failover.run),
    "m": (node_processes.TITLE, node_processes.run),
    "mt": (metadata_tables.TITLE, metadata_tables.run),
    "n": (metadata_log.TITLE, metadata_log.run),
    "o": (bucket_log.TITLE, bucket_log.run),
    "p": (large_image.TITLE, large_image.run),
    "q": (spark_reading.TITLE, spark_reading.run),
    "r": (spark_tables.TITLE, spark_tables.run),
    "ci": (found_columns.TITLE, found_columns.run),
    "ch": (change_events.TITLE, change_events.run),
    "kw": (killed_writers.TITLE, killed_writers.run),
    "st": (starting.TITLE, starting.run),
    "s": (spark_writing.TITLE, spark_writing.run),
    "t": (spark_latency.TITLE, spark_latency.run),
    "tr": (spark_real_time.TITLE, spark_real_time.run),
    "u": (scanning.PLANNING_TITLE, scanning.run_planning),
    "v": (scanning.TITLE, scanning.run),
    "w": (producing.TITLE, producing.run),
    "xt": (transactions.TITLE, transactions.run),
    "xc": (transactions.COPY_TITLE, transactions.run_copies),
    "xr": (scanning_transactions.TITLE, scanning_transactions.run),
    "y": (group_members.TITLE, group_members.run),
    "ys": (group_members.SHARE_TITLE, group_members.run_shares),
    "aa": (buckets.UPLOADS_TITLE, buckets.run_uploads),
    "ab": (buckets.GAP_TITLE, buckets.run_gap),
    "ac": (buckets.DRAIN_TITLE, buckets.run_drain),
    "ad": (bandwidth.TITLE, bandwidth.run),
    "z1": (security.TLS_TITLE, security.run_tls),
    "z2": (security.RIGHTS_TITLE, security.run_rights),
    "z4": (security.IDLE_TITLE, security.run_idle),
    "co": (console.TITLE, console.run),
    "kafka": (kafka.TITLE, kafka.run),
}


def main(wanted: list[str]) -> int:
    terminal = Terminal()
    unknown = [letter for letter in wanted if letter not in BENCHMARKS]
    if unknown:
        terminal.print(f"no benchmark {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
        return 2
    for letter in wanted or BENCHMARKS:
        title, run = BENCHMARKS[letter]
        show(title, run(), terminal)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
