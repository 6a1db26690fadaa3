"""What became of the records, from what was acknowledged and what was read."""

from siltstone.cli.demo.cluster.counting import RecordCount, count_records, number_of
from siltstone.cli.demo.kafka_client import Consumed


def record(number: int, partition: int, offset: int) -> Consumed:
    return Consumed("flights", partition, offset, 0, b"N1", b"%d a line 7 8" % number)


ANSWERED = {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1)}
READ = [record(3, 1, 1), record(2, 0, 1), record(0, 0, 0), record(1, 1, 0)]


def test_a_record_begins_with_its_number() -> None:
    assert number_of(record(4711, 0, 0)) == 4711


def test_all_is_right_in_whatever_order_it_was_read() -> None:
    found = count_records(ANSWERED, READ)
    assert found == RecordCount(4, 4, (), (), ())
    assert found.is_right


def test_what_was_acknowledged_and_not_read_is_lost() -> None:
    found = count_records(ANSWERED, READ[1:])
    assert (found.lost, found.doubled, found.misplaced, found.is_right) == ((3,), (), (), False)


def test_what_is_at_two_offsets_is_doubled() -> None:
    found = count_records(ANSWERED, [*READ, record(3, 1, 2)])
    assert (found.lost, found.doubled, found.misplaced, found.is_right) == ((), (3,), (), False)


def test_what_was_sent_and_not_acknowledged_may_be_there() -> None:
    assert count_records(ANSWERED, [*READ, record(4, 0, 2)]).is_right


def test_what_is_elsewhere_or_behind_a_later_one_is_misplaced() -> None:
    elsewhere = [record(3, 0, 2), *READ[1:]]
    assert count_records(ANSWERED, elsewhere).misplaced == (3,)
    swapped = count_records({5: (0, 0), 4: (0, 1)}, [record(5, 0, 0), record(4, 0, 1)])
    assert (swapped.lost, swapped.misplaced, swapped.is_right) == ((), (4,), False)
