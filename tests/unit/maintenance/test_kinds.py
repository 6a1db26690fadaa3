from typing import Any

import pytest

from siltstone.maintenance.kinds import MAKERS, chosen_kinds
from siltstone.model.errors import InvalidRequest
from siltstone.offline.kind_rows import COPYING, FREEING, KIND_NAMES
from siltstone.offline.settings import Intervals, KindSettings, Rates


def test_what_frees_space_comes_first_and_what_copies_most_last() -> None:
    assert KIND_NAMES[0] == "sweep" and KIND_NAMES[-1] == "major-gc"
    freeing = [kind in FREEING for kind in KIND_NAMES]
    assert freeing == sorted(freeing, reverse=True)
    assert len(set(KIND_NAMES)) == len(KIND_NAMES)


def test_every_row_has_a_maker_and_its_settings() -> None:
    assert list(MAKERS) == list(KIND_NAMES)
    assert all(Intervals().of(kind) > 0 for kind in KIND_NAMES)
    assert set(Rates().by_kind) == COPYING - {"minor-gc", "major-gc"}


def test_a_kind_is_made_when_it_is_chosen() -> None:
    def fail(_: KindSettings) -> Any:
        raise AssertionError("not chosen")

    others = {name: fail for name in KIND_NAMES if name != "sweep"}
    (sweep,) = chosen_kinds(KindSettings(), ["sweep"], {**MAKERS, **others})
    assert sweep.name == "sweep"


def test_kinds_are_chosen_by_name_and_stay_in_order() -> None:
    settings = KindSettings()
    assert [kind.name for kind in chosen_kinds(settings)] == list(KIND_NAMES)
    chosen = chosen_kinds(settings, ["sso-compaction", "sweep"])
    assert [kind.name for kind in chosen] == ["sweep", "sso-compaction"]
    with pytest.raises(InvalidRequest, match="there is no kind named dust; the kinds are sweep, "):
        chosen_kinds(settings, ["dust"])
