import pytest

from siltstone.maintenance.garbage_collection.kind import kind_name
from siltstone.model.errors import InvalidRequest
from siltstone.offline.settings import GcSettings, Level


def test_the_defaults_are_bookkeepers() -> None:
    settings = GcSettings()
    assert [settings.threshold(level) for level in Level] == [0.2, 0.8]
    assert [kind_name(level) for level in Level] == ["minor-gc", "major-gc"]


@pytest.mark.parametrize(
    ("minor", "major"), [(0.8, 0.8), (0.9, 0.8), (0.0, 0.8), (-0.1, 0.8), (0.2, 1.1), (float("nan"), 0.8)]
)
def test_gc6_thresholds_that_cannot_be_are_refused(minor: float, major: float) -> None:
    with pytest.raises(InvalidRequest, match="a minor collection has to take less than a major one"):
        GcSettings(minor_threshold=minor, major_threshold=major)


@pytest.mark.parametrize("name", ["lease_ms", "objects_max", "round_bytes", "target_size_bytes"])
def test_nothing_is_done_with_nothing(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is 0"):
        GcSettings(**{name: 0})
    assert GcSettings(copy_bytes_per_second=0)
    with pytest.raises(InvalidRequest, match="copy_bytes_per_second is -1"):
        GcSettings(copy_bytes_per_second=-1)
