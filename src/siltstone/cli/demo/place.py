"""The folder of the demo's store: the one that --store names, or a temporary one that is deleted afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.model.errors import InvalidRequest


class PlaceTaken(InvalidRequest):
    """The folder of --store is not empty; the demo uses only a new or empty folder."""


@contextmanager
def demo_folder(wanted: Path | None, *, keep: bool) -> Iterator[Path]:
    """Yields ``wanted`` or a temporary folder. ``wanted`` is never deleted, the temporary folder is, unless ``keep``.
    Raises PlaceTaken."""
    if wanted is not None:
        yield _vacant(wanted)
        return
    folder = Path(tempfile.mkdtemp(prefix="siltstone-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _vacant(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PlaceTaken(f"{folder} exists and is not empty: name another folder, or remove it")
    return folder
