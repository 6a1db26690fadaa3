import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.offline.settings import KeyCompactionSettings


@pytest.mark.parametrize("name", sorted(set(KeyCompactionSettings.__struct_fields__) - {"allowance_ms"}))
def test_nothing_can_be_done_with_nothing(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is 0; it must be at least 1"):
        KeyCompactionSettings(**{name: 0})


def test_a_commit_at_once_may_be_asked_for() -> None:
    assert KeyCompactionSettings(allowance_ms=0).allowance_ms == 0
    with pytest.raises(InvalidRequest, match="allowance_ms is -1"):
        KeyCompactionSettings(allowance_ms=-1)
