"""Tables of few exports whose small files are joined."""

import pytest

from siltstone.tables import joining

_JOINED_FILES = 3


@pytest.fixture
def small_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins are tried in sequences of a few exports."""
    monkeypatch.setattr(joining, "SMALL_FILES_MAX", _JOINED_FILES)
