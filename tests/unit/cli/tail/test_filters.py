from siltstone.cli.tail.filters import TOGETHER, record_filter, told_apart
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.following import Found
from siltstone.kafka_protocol.records.reading import Record

WHERE = TopicPartition("t", 0)


def found(number: int) -> Found:
    return WHERE, Record(offset=number, key=b"k%d" % number, value=b'{"n": %d}' % number)


def shown(grep: str | None, where: str | None, count: int = 30) -> list[int]:
    matches = record_filter(grep, where)
    records = [found(number) for number in range(count)]
    return [
        each[1].offset for each, is_shown in told_apart(records, matches) if each is not None and is_shown
    ]


def test_both_filters_have_to_match() -> None:
    assert shown(None, None) == list(range(30))
    assert shown("k2", None) == [2, *range(20, 30)]
    assert shown('"n": 11}', None) == [11]
    assert shown(None, "n < 3") == [0, 1, 2]
    assert shown("k2", "n > 25") == [26, 27, 28, 29]
    assert shown("nothing", "n > 25") == []


def test_text_is_found_in_bytes_that_are_no_utf8_and_null_has_none() -> None:
    matches = record_filter("ü", None)
    assert matches is not None
    records = [
        Record(value=b"\xff" + "ü".encode()),
        Record(),
        Record(key="über".encode()),
        Record(value=b"u"),
    ]
    assert matches([(WHERE, each) for each in records]) == [True, False, True, False]


def test_records_are_filtered_together_and_none_waits_behind_the_end_of_a_fetch() -> None:
    sizes: list[int] = []

    def odd(records: list[Found]) -> list[bool]:
        sizes.append(len(records))
        return [record.offset % 2 == 1 for _, record in records]

    told = list(told_apart([found(0), found(1), None, None, found(2)], odd))  # type: ignore[arg-type]
    assert told == [(found(0), False), (found(1), True), (None, False), (None, False), (found(2), False)]
    list(told_apart([found(number) for number in range(TOGETHER + 5)], odd))  # type: ignore[arg-type]
    assert sizes == [2, 1, TOGETHER, 5]
