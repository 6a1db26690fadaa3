"""The logs the suite runs over. A further adapter joins by one more kind of lives here."""

from pathlib import Path

import pytest

from support.engine.wal_lives import BucketLives, FileLives

Lives = BucketLives | FileLives


@pytest.fixture(params=["file", "bucket"])
def lives(request: pytest.FixtureRequest, tmp_path: Path) -> Lives:
    """The lives of one log, each opened after the one before it was closed."""
    return BucketLives() if request.param == "bucket" else FileLives(tmp_path / "wal")
