import pytest

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.model.errors import InvalidRequest


def test_without_topics_everything_is_included_streams_of_no_topic_too() -> None:
    assert Scope().includes(None) and Scope().includes("flights")
    some = Scope(topics=frozenset({"flights"}))
    assert some.includes("flights") and not some.includes("other") and not some.includes(None)


@pytest.mark.parametrize("limits", [{"bytes_max": 0}, {"seconds_max": -1.0}])
def test_a_budget_of_nothing_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidRequest, match="it must be more than 0"):
        Budget(**limits)  # type: ignore[arg-type]
