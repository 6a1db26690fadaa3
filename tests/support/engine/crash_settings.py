"""Settings under which a store does in a second what it otherwise does in an hour."""

from pathlib import Path

from siltstone.server.settings.node import NodeSettings, load_node_settings


def crash_settings(folder: Path) -> NodeSettings:
    return load_node_settings(
        folder,
        environment={},
        flags={
            "engine.upload.cache_block_bytes_max": "64KiB",
            "engine.upload.cache_block_age_ms_max": "100ms",
            "engine.upload.split_size_bytes": "16KiB",
            "engine.upload.block_size_bytes": "4KiB",
            "engine.wal.segment_bytes": "256KiB",
            "engine.wal.capacity_bytes": "1MiB",
            "engine.tail_cache_bytes_max": "1MiB",
            "engine.append_bytes_max": "64KiB",
        },
    )
