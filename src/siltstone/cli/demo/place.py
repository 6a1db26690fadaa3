"""Where the demo's store lies, and that it is gone afterwards unless it was asked to stay."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.model.errors import InvalidRequest


class PlaceTaken(InvalidRequest):
    """The folder holds something: the demo only fills a folder of its own."""


@contextmanager
def demo_folder(wanted: Path | None, *, keep: bool) -> Iterator[Path]:
    """``wanted``, which stays, or a temporary folder, which does not unless ``keep``. Raises PlaceTaken."""
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
        raise PlaceTaken(f"{folder} is there already and is not empty: name another folder, or remove it")
    return folder
