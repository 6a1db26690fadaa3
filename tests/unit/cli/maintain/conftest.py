from pathlib import Path

import pytest

from siltstone.cli.maintain import explain, plan, run
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import small_store
from support.maintenance.fake_kind import FakeKind


@pytest.fixture
def store(tmp_path: Path) -> NodeSettings:
    return small_store(tmp_path / "store")


@pytest.fixture
def tidy(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    """The only kind there is."""
    kind = FakeKind()
    for module in (plan, explain, run):
        monkeypatch.setattr(module, "chosen_kinds", lambda settings, names: [kind])
    return kind
