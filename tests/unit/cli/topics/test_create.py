from support.broker.in_process import InProcessBroker
from support.processes.cli import assert_one_line


def test_a_topic_with_its_partitions_and_configurations(broker: InProcessBroker) -> None:
    made = broker.siltstone("topics", "create", "t", "--partitions", 2, "--config", "retention.ms=1d")
    assert (made.status, made.out, made.err) == (0, "Created t, 2 partitions.\n", "")
    described = broker.siltstone("topics", "describe", "t", "--json").json
    assert len(described["partitions"]) == 2
    assert described["configs"]["retention.ms"]["value"] == "86400000"


def test_a_number_whose_unit_was_probably_forgotten_is_noted(broker: InProcessBroker) -> None:
    made = broker.siltstone("topics", "create", "t", "-c", "retention.ms=7", "-c", "segment.bytes=1048576")
    assert made.status == 0
    assert made.err == "retention.ms=7 is 7 ms: a unit can be given, as in 7d, 12h or 30s\n"
    changed = broker.siltstone("topics", "configure", "t", "retention.bytes=10")
    assert "retention.bytes=10 is 10 bytes: a unit can be given" in changed.err
    assert (
        broker.siltstone("topics", "configure", "t", "retention.ms=7d", "min.compaction.lag.ms=0").err == ""
    )


def test_a_configuration_of_kafka_that_has_no_effect_here_is_noted_once(broker: InProcessBroker) -> None:
    words = "Siltstone keeps min.insync.replicas, which has no effect on it: A write is acknowledged when it is in"
    made = broker.siltstone("topics", "create", "t", "-c", "min.insync.replicas=5", "-c", "flush.ms=1000")
    assert made.status == 0 and made.err.startswith(words) and "Siltstone keeps flush.ms" in made.err
    assert len(made.err.splitlines()) == 2
    assert broker.siltstone("topics", "configure", "t", "min.insync.replicas=3").err.startswith(words)
    for silent in ("min.insync.replicas=1", "retention.ms=7d"):
        assert broker.siltstone("topics", "configure", "t", silent).err == "", "the default says nothing new"
    assert broker.siltstone("topics", "configure", "t", "min.insync.replicas=2", "--json").err == ""


def test_without_a_number_the_topic_has_as_many_partitions_as_the_broker_gives(
    broker: InProcessBroker,
) -> None:
    assert broker.siltstone("topics", "create", "t").out == "Created t, 1 partition.\n"


def test_json_tells_the_id_of_the_topic(broker: InProcessBroker) -> None:
    made = broker.siltstone("topics", "create", "t", "--partitions", 3, "--json").json
    assert list(made) == ["name", "made", "topic_id", "partitions"]
    assert (made["name"], made["made"], made["partitions"]) == ("t", True, 3)
    assert made["topic_id"] == broker.siltstone("topics", "describe", "t", "--json").json["topic_id"]


def test_a_topic_that_exists_is_refused_unless_it_may_exist(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t")
    assert_one_line(
        broker.siltstone("topics", "create", "t"),
        2,
        "siltstone: Topic 't' already exists (TOPIC_ALREADY_EXISTS)",
    )
    again = broker.siltstone("topics", "create", "t", "--if-missing")
    assert (again.status, again.out) == (0, "t already exists.\n")
    assert broker.siltstone("topics", "create", "t", "--if-missing", "--json").json == {
        "name": "t",
        "made": False,
    }


def test_every_other_refusal_is_an_error(broker: InProcessBroker) -> None:
    for words in ((), ("--if-missing",)):
        refused = broker.siltstone("topics", "create", "t", "--config", "retention.mss=1", *words)
        assert_one_line(refused, 2, "INVALID_CONFIG", "did you mean retention.ms?")
    assert broker.siltstone("topics", "--json").json == {"topics": []}


def test_counts_that_the_protocol_cannot_hold_are_refused_by_the_command(broker: InProcessBroker) -> None:
    refused = broker.siltstone("topics", "create", "t", "--partitions", 2**31)
    assert_one_line(refused, 2, "--partitions", "2147483647")
    refused = broker.siltstone("topics", "create", "t", "--replication-factor", 2**15)
    assert_one_line(refused, 2, "--replication-factor", "32767")
