import pytest

from siltstone.maintenance.pipeline.round_telling import telling
from siltstone.maintenance.pipeline.watch import Cancelled, Told, Watch
from siltstone.maintenance.report import CompactionProgress
from siltstone.runtime.clock import ManualClock


def test_steps_are_told_with_their_share_of_the_bytes() -> None:
    heard: list[Told] = []
    telling(Watch("kind", ManualClock(), on_told=heard.append), 800)(CompactionProgress("rewrite", 1, 4))
    assert heard == [Told("kind", "rewrite", 1, 4, 200, 800)]


def test_a_commit_that_stands_is_not_cancelled() -> None:
    watch = Watch("kind", ManualClock())
    watch.cancel("enough")
    tell = telling(watch)
    tell(CompactionProgress("commit", 1, 1))
    with pytest.raises(Cancelled, match="enough"):
        tell(CompactionProgress("rewrite", 1, 4))
