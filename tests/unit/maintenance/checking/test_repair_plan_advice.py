from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.repair_plan import ADVICE


def test_there_is_advice_for_every_kind() -> None:
    assert ADVICE.keys() == set(FindingKind)
    assert all(text and text[-1] != "." for text in ADVICE.values())
