import gc

import pytest

from siltstone.server.python_process import (
    MIDDLE_COLLECTIONS_MAX,
    YOUNG_COLLECTIONS_MAX,
    YOUNG_OBJECTS_MAX,
    tuned_garbage_collection,
)


def test_it_holds_while_it_lasts() -> None:
    gc.unfreeze()  # the test session freezes now and then what stays
    before = gc.get_threshold()
    with tuned_garbage_collection():
        assert gc.get_threshold() == (YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)
        assert gc.get_freeze_count() > 1000
        assert gc.isenabled()  # the few cycles there are must go some day
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_it_ends_with_a_failure_too() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="x"), tuned_garbage_collection():
        raise ValueError("x")
    assert gc.get_threshold() == before
