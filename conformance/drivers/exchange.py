"""The exchange: each client writes the same records with every codec, one partition for each client, and reads what
the others wrote. The topic exists and has the name of the scenario."""

from collections.abc import Iterable

from conformance.drivers.payloads import codec_values
from conformance.drivers.scenario import same

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The values of each partition."""
RECORDS = len(CODECS) * len(codec_values())


def check_exchange(got: Iterable[tuple[int, bytes | None]]) -> None:
    """``got``: the partition and the value of each record that was read."""
    by_partition: dict[int, list[bytes | None]] = {partition: [] for partition in range(len(CODECS))}
    for partition, value in got:
        by_partition[partition].append(value)
    for partition, codec in enumerate(CODECS):
        same(f"values with codec {codec}", by_partition[partition], codec_values())
