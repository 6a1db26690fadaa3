"""The exchange: each client writes the same records with every codec, a partition each, and reads what others wrote.
The topic is there; it is called as the scenario is."""

from collections.abc import Iterable

from conformance.drivers.payloads import codec_values
from conformance.drivers.scenario import same

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By partition."""
RECORDS = len(CODECS) * len(codec_values())


def check_exchange(got: Iterable[tuple[int, bytes | None]]) -> None:
    """``got``: partition and value, as read."""
    by_partition: dict[int, list[bytes | None]] = {partition: [] for partition in range(len(CODECS))}
    for partition, value in got:
        by_partition[partition].append(value)
    for partition, codec in enumerate(CODECS):
        same(f"values with codec {codec}", by_partition[partition], codec_values())
