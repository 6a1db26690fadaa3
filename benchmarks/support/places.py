"""The place of a benchmark: a folder of its own on the disk of the checkout, which is removed afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.server.settings.node import NodeSettings, load_node_settings

WORKPLACE = Path(".build/benchmarks")


@contextmanager
def folder() -> Iterator[Path]:
    """The folder is not in a memory file system, because a sync has to cost what it costs."""
    WORKPLACE.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=WORKPLACE)).absolute()
    try:
        yield place
    finally:
        shutil.rmtree(place)


def store_settings(place: Path, **flags: str) -> NodeSettings:
    return load_node_settings(
        place, environment={}, flags={key.replace("__", "."): text for key, text in flags.items()}
    )
