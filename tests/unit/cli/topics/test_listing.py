import pytest
from msgspec import structs

from siltstone.cli.output import results
from siltstone.cli.topics import command, listing
from siltstone.cli.topics.listing import TopicRow, led_partitions, rated_rows, topic_rows, topics_table
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.configs import ConfigSource, KnownConfig
from siltstone.kafka_client.offsets import Ends
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def topic(name: str, *codes: ErrorCode, is_internal: bool = False) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    return MetadataResponseTopic(name=name, partitions=partitions, is_internal=is_internal)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two topics; of one a partition has no leader, and the other is internal."""
    topics = [
        topic("a", ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE),
        topic("b", ErrorCode.NONE, is_internal=True),
    ]
    policy = {"cleanup.policy": KnownConfig("cleanup.policy", "delete", ConfigSource.DEFAULT)}
    monkeypatch.setattr(listing, "all_topics", lambda _: topics)
    monkeypatch.setattr(listing, "topic_configs", lambda _, names, keys: dict.fromkeys(names, policy))
    monkeypatch.setattr(listing, "topic_bytes", lambda _: {"a": 2048})
    monkeypatch.setattr(listing, "ends_of", lambda _, keys: {key: Ends(3, 10) for key in keys})


def test_partitions_without_a_leader_are_not_asked_and_named(cluster: None) -> None:
    (row,) = topic_rows(None, internal=False)
    assert (row.name, row.partitions, row.records_max, row.without_leader, row.size_bytes) == (
        "a",
        2,
        7,
        [1],
        2048,
    )


def test_the_partitions_with_a_leader_are_asked_for_in_order() -> None:
    found = topic("t", ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    found.partitions.reverse()
    assert led_partitions(found) == [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_internal_topics_are_listed_on_request(cluster: None) -> None:
    assert [row.name for row in topic_rows(None, internal=True)] == ["a", "b"]


def row(
    name: str,
    policy: str,
    records: int = 1_234_567,
    without_leader: tuple[int, ...] = (),
    size_bytes: int | None = None,
) -> TopicRow:
    return TopicRow(name, "id", False, 12, records, policy, list(without_leader), size_bytes)


TABLE = """\
topic          partitions      records    bytes  cleanup
───────────────────────────────────────────────────────────────
flights                12    1,234,567        -  delete
[b]by-key[/b]          12  ≤ 1,234,567  2.0 KiB  compact,delete
"""


def test_how_the_list_looks(capsys: pytest.CaptureFixture[str]) -> None:
    results(80).print(
        topics_table([row("flights", "delete"), row("[b]by-key[/b]", "compact,delete", size_bytes=2048)])
    )
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == TABLE.splitlines()


def test_an_empty_compacted_topic_has_no_record() -> None:
    assert row("t", "compact", records=0).records_words == "0"


def test_a_topic_without_a_leader_is_remarked(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Choice:
        def open(self):
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(command, "topic_rows", lambda *_, **__: [row("a", "delete", without_leader=(1, 4))])
    command.list_topics(Choice(), False, None, False)
    assert capsys.readouterr().err == "a: no broker leads partition 1, 4\n"


def seen(
    ends: int, records: int, size: int | None, *, name: str = "t", without: tuple[int, ...] = ()
) -> TopicRow:
    return TopicRow(name, name, False, 1, records, "delete", list(without), size, ends)


@pytest.mark.parametrize(
    ("before", "after", "records_per_s", "bytes_per_s"),
    [
        (seen(100, 40, 1_000), seen(150, 90, 3_000), 10.0, 400.0),
        (seen(100, 40, 1_000), seen(100, 40, 1_000), 0.0, 0.0),
        (seen(100, 40, 1_000), seen(150, 80, 3_000), 10.0, None),  # ten were deleted meanwhile
        (seen(100, 40, 1_000), seen(150, 90, 900), 10.0, None),  # and here it was compacted
        (seen(100, 40, 1_000), seen(100, 40, 900), 0.0, None),
        (seen(100, 40, None), seen(150, 90, None), 10.0, None),
        (seen(100, 40, 1_000, without=(1,)), seen(900, 840, 9_000), None, None),  # a partition came back
        (seen(100, 40, 1_000, name="old"), seen(150, 90, 3_000), None, None),
    ],
)
def test_rates_are_of_what_was_written(before, after, records_per_s, bytes_per_s) -> None:
    (rated,) = rated_rows([before], [after], 5.0)
    assert (rated.records_per_s, rated.bytes_per_s) == (records_per_s, bytes_per_s)


RATES = """\
topic  partitions  records    bytes  records/s   bytes/s  cleanup
─────────────────────────────────────────────────────────────────
t               1       90  2.9 KiB     12,000  16.0 KiB  delete
u               1       40        -          -         -  delete
"""


def test_how_rates_look(capsys: pytest.CaptureFixture[str]) -> None:
    rated = structs.replace(seen(150, 90, 3_000), records_per_s=12_000.4, bytes_per_s=16_384.2)
    results(80).print(topics_table([rated, seen(100, 40, None, name="u")], rates=True))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == RATES.splitlines()
