import pytest

from siltstone.maintenance.kinds import FREEING, KIND_NAMES, chosen_kinds
from siltstone.model.errors import InvalidRequest
from siltstone.offline.settings import Intervals, KindSettings


def test_what_frees_space_comes_first_and_what_copies_most_last() -> None:
    assert KIND_NAMES[0] == "sweep" and KIND_NAMES[-1] == "major-gc"
    freeing = [kind in FREEING for kind in KIND_NAMES]
    assert freeing == sorted(freeing, reverse=True)
    assert len(set(KIND_NAMES)) == len(KIND_NAMES)


def test_every_kind_has_an_interval() -> None:
    assert all(Intervals().of(kind) > 0 for kind in KIND_NAMES)


def test_kinds_are_chosen_by_name_and_stay_in_order() -> None:
    settings = KindSettings()
    assert [kind.name for kind in chosen_kinds(settings)] == list(KIND_NAMES)
    chosen = chosen_kinds(settings, ["sso-compaction", "sweep"])
    assert [kind.name for kind in chosen] == ["sweep", "sso-compaction"]
    with pytest.raises(InvalidRequest, match="there is no kind named dust; the kinds are sweep, "):
        chosen_kinds(settings, ["dust"])
