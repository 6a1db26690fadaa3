from support.broker.in_process import InProcessBroker
from support.processes.cli import Outcome, assert_one_line

LOOKS = """\
configuration   before     after
──────────────────────────────────
retention.ms    604800000  1000
cleanup.policy  delete     compact
"""


def configs(broker: InProcessBroker) -> dict[str, str]:
    described = broker.siltstone("topics", "describe", "t", "--json").json["configs"]
    return {name: config["value"] for name, config in described.items()}


def changes(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(each["name"], each["before"], each["after"]) for each in outcome.json["changes"]]


def test_configurations_are_changed_together_and_shown_before_and_after(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t")
    changed = broker.siltstone("topics", "configure", "t", "retention.ms=1s", "cleanup.policy=compact")
    assert [line.rstrip() for line in changed.out.splitlines()] == LOOKS.splitlines()
    assert (changed.status, changed.err) == (0, "")
    assert configs(broker) == {"cleanup.policy": "compact", "retention.ms": "1000"}
    refused = broker.siltstone("topics", "configure", "t", "retention.ms=5", "no.such=1")
    assert_one_line(refused, 2, "no.such", "siltstone topics describe TOPIC --all lists all names")
    assert configs(broker)["retention.ms"] == "1000"


def test_a_dry_run_changes_nothing(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t", "--config", "retention.ms=9")
    words = ("topics", "configure", "t", "retention.ms=7000", "--partitions", 3, "--dry-run")
    dry = broker.siltstone(*words)
    assert dry.err == "The broker would accept the change; nothing was changed.\n"
    told = broker.siltstone(*words, "--json")
    assert told.json["dry_run"] is True and told.err == ""
    assert changes(told) == [("retention.ms", "9", "7000"), ("partitions", "1", "3")]
    assert configs(broker) == {"retention.ms": "9"}
    assert len(broker.siltstone("topics", "describe", "t", "--json").json["partitions"]) == 1


def test_a_removed_configuration_has_the_value_of_the_broker_again(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t", "--config", "retention.ms=9")
    removed = broker.siltstone("topics", "configure", "t", "--remove", "retention.ms", "--json")
    assert changes(removed) == [("retention.ms", "9", "604800000")]
    assert removed.json["dry_run"] is False and configs(broker) == {}


def test_partitions_and_configurations_are_refused_together(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t", "--partitions", 2)
    fewer = broker.siltstone("topics", "configure", "t", "retention.ms=1", "--partitions", 1)
    assert_one_line(fewer, 2, "INVALID_PARTITIONS")
    assert configs(broker) == {}
    wrong = broker.siltstone("topics", "configure", "t", "retention.ms=x", "--partitions", 3)
    assert_one_line(wrong, 2, "write retention.ms=7d")
    more = broker.siltstone("topics", "configure", "t", "retention.ms=1", "--partitions", 3, "--json")
    assert changes(more) == [("retention.ms", "604800000", "1"), ("partitions", "2", "3")]
    assert configs(broker) == {"retention.ms": "1"}
    assert len(broker.siltstone("topics", "describe", "t", "--json").json["partitions"]) == 3


def test_something_has_to_change(broker: InProcessBroker) -> None:
    assert_one_line(broker.siltstone("topics", "configure", "t"), 2, "nothing to change", "describe t --all")
    broker.siltstone("topics", "create", "t")
    assert changes(broker.siltstone("topics", "configure", "t", "--partitions", 2, "--json")) == [
        ("partitions", "1", "2")
    ]
