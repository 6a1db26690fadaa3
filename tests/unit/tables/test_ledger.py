import pytest

from siltstone.tables.failures import LedgerLost
from siltstone.tables.ledger import GAPS_MAX, Gap, Ledger, TableIdentity, ledger_of, properties_of

LEDGER = Ledger(
    identity=TableIdentity("the store", "the topic"),
    created_ms=1_600_000_000_000,
    offsets={0: 12, 11: 2**62},
    token="7-0123456789abcdef",
    snapshot_id=2**62,
    gaps=(Gap(0, 3, 5),),
    committed_ms=1_700_000_000_000,
)
PROPERTIES = {
    "siltstone.layout": "1",
    "siltstone.store-id": "the store",
    "siltstone.topic-id": "the topic",
    "siltstone.created": "1600000000000",
    "siltstone.offsets": '{"0":12,"11":4611686018427387904}',
    "siltstone.commit": '{"token":"7-0123456789abcdef","snapshot":4611686018427387904}',
    "siltstone.gaps": "[[0,3,5]]",
    "siltstone.time": "1700000000000",
}


def test_its_properties_are_these() -> None:
    assert properties_of(LEDGER) == PROPERTIES
    assert ledger_of("t", {**PROPERTIES, "owner": "somebody"}) == LEDGER


@pytest.mark.parametrize("name", sorted(PROPERTIES))
@pytest.mark.parametrize("text", [None, "", "{", "[1]x", "7"])
def test_without_one_of_them_or_with_a_damaged_one_it_is_lost(name: str, text: str | None) -> None:
    damaged = {key: value for key, value in PROPERTIES.items() if key != name} | (
        {} if text is None else {name: text}
    )
    if text is not None and name in ("siltstone.store-id", "siltstone.topic-id"):
        assert ledger_of("t", damaged) != LEDGER
    elif name in ("siltstone.time", "siltstone.created") and text == "7":
        assert 7 in (ledger_of("t", damaged).committed_ms, ledger_of("t", damaged).created_ms)
    else:
        with pytest.raises(LedgerLost, match="the ledger of table t is lost: "):
            ledger_of("t", damaged)


def test_a_ledger_without_an_export_has_nothing_of_any_partition() -> None:
    new = Ledger(identity=LEDGER.identity)
    assert (new.offset(0), LEDGER.offset(11), LEDGER.offset(0)) == (None, 2**62, 12)
    assert (new.created_ms, new.committed_ms, new.token, new.snapshot_id) == (0, 0, "", None)
    assert ledger_of("t", properties_of(new)) == new


def test_it_only_moves_on_and_keeps_the_newest_gaps() -> None:
    after = LEDGER.after({0: 20, 1: 4}, "next", 5, tuple(Gap(0, n, n + 1) for n in range(GAPS_MAX)))
    assert after.offsets == {0: 20, 1: 4, 11: 2**62}
    assert (len(after.gaps), after.gaps[0]) == (GAPS_MAX, Gap(0, 0, 1))
    assert (after.token, after.committed_ms, after.identity) == ("next", 5, LEDGER.identity)
    with pytest.raises(AssertionError, match="partition 0 would go back to 11"):
        LEDGER.after({0: 11}, "next", 5)
