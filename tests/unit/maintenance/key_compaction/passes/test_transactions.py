from siltstone.kafka_protocol.records.control import Outcome
from siltstone.maintenance.key_compaction.passes.transactions import Outcomes, TransactionsSeen


def test_the_first_marker_after_it_decides_a_batch() -> None:
    outcomes = Outcomes()
    outcomes.batch(1, 10)
    outcomes.batch(2, 11)
    outcomes.batch(1, 12)
    outcomes.marker(1, 13, Outcome.ABORT)
    outcomes.batch(1, 14)
    outcomes.marker(2, 15, Outcome.COMMIT)
    outcomes.marker(1, 16, Outcome.COMMIT)
    outcomes.batch(1, 17)
    outcomes.marker(1, 18, Outcome.ABORT)
    assert [offset for offset in (10, 12, 14, 17) if outcomes.is_aborted(1, offset)] == [10, 12, 17]
    assert not outcomes.is_aborted(2, 11)
    assert not outcomes.is_aborted(3, 11)


def test_the_first_that_is_undecided() -> None:
    outcomes = Outcomes()
    assert outcomes.first_undecided is None
    outcomes.batch(1, 10)
    outcomes.batch(2, 11)
    assert outcomes.first_undecided == 10
    outcomes.marker(1, 12, Outcome.COMMIT)
    assert outcomes.first_undecided == 11
    outcomes.marker(2, 13, Outcome.ABORT)
    assert outcomes.first_undecided is None


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    outcomes = Outcomes()
    outcomes.marker(1, 5, Outcome.ABORT)
    outcomes.batch(1, 6)
    assert not outcomes.is_aborted(1, 6)
    outcomes.marker(1, 7, Outcome.ABORT)
    assert outcomes.is_aborted(1, 6)
    outcomes.batch(1, 8)
    assert outcomes.first_undecided == 8


def test_a_marker_is_alone_when_no_batch_came_before_it() -> None:
    seen = TransactionsSeen()
    seen.batch(1)
    assert seen.marker_is_alone(2)
    assert not seen.marker_is_alone(1)
    assert seen.marker_is_alone(1)
