"""Changes by button, of a store whose broker runs: what was shown is what is done, and the same as the commands do."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.console.visitors import Visitor
from support.console.asking import Answer
from support.console.of_store import ConsoleOfAStore
from support.kafka.quiet_client import QUIET
from support.processes.cli import run

pytestmark = pytest.mark.xdist_group("console-changes")  # the tests share a broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("changes") / "store") as running:
        config = {"bootstrap.servers": running.bootstrap_servers, **QUIET}
        admin = AdminClient(config)
        made = admin.create_topics([NewTopic("orders", 2), NewTopic("other", 1)])
        for future in made.values():
            future.result(60)
        producer = Producer(config)
        for number in range(20):
            producer.produce("orders", str(number), partition=number % 2, timestamp=1_000_000 + number)
        assert producer.flush(60) == 0
        yield running


class Changing:
    """A console with changes, and clients beside it."""

    def __init__(self, broker: siltstone.Broker) -> None:
        self.broker = broker
        self.console = ConsoleOfAStore(broker.folder)
        self.config = {"bootstrap.servers": broker.bootstrap_servers, **QUIET}

    def commit(self, group: str, *offsets: int) -> None:
        consumer = Consumer({**self.config, "group.id": group})
        places = [TopicPartition("orders", number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
        self.flush()

    def flush(self) -> None:
        """Without a broker's own knowledge the console has the positions that are in objects."""
        self.broker.flush()

    def committed(self, group: str) -> list[int]:
        consumer = Consumer({**self.config, "group.id": group})
        found = consumer.committed([TopicPartition("orders", number) for number in range(2)], timeout=60)
        consumer.close()
        return [each.offset for each in found]

    def preview(self, group: str, **query: str) -> tuple[str, dict[str, str]]:
        """Returns the page, and the fields of its form."""
        text = self.console.ask(f"/groups/{group}?{urlencode({'topic': 'orders', **query})}").text
        form = text.partition('action="/groups/reset"')[2].partition("</form>")[0]
        fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
        return text, {name: html.unescape(value) for name, value in fields}

    def post(self, path: str, **form: str) -> Answer:
        return self.console.ask(path, form={"token": "form-token", **form})

    def config_of(self, name: str) -> str:
        rows = run(
            "topics", "describe", "orders", "--json", "--all", "-b", self.broker.bootstrap_servers
        ).json
        found = rows["configs"][name]
        return str(found["value"] if isinstance(found, dict) else found)


@pytest.fixture
def changing(broker: siltstone.Broker) -> Changing:
    return Changing(broker)


def test_wc10_a_reset_does_what_its_preview_has_shown(changing: Changing) -> None:
    changing.commit("readers", 4, 6)
    text, form = changing.preview("readers", to="offset", at="2")
    assert "6 records would be read again, and 0 would be skipped" in text
    assert "siltstone groups reset readers --topic orders --to 2" in text
    assert changing.post("/groups/reset", **form).status == 400, "the name was not typed"
    assert changing.committed("readers") == [4, 6]
    done = changing.post("/groups/reset", **form, name="readers")
    assert (done.status, done.headers["location"]) == (303, "/groups/readers?changed=1")
    assert changing.committed("readers") == [2, 2]
    assert "The group was reset." in changing.console.ask("/groups/readers?changed=1").text


def test_wc10_a_reset_by_time_and_to_the_ends_are_those_of_the_brokers(changing: Changing) -> None:
    changing.commit("timed", 4, 6)
    for query, expected in (
        ({"to": "latest"}, [10, 10]),
        ({"to": "earliest"}, [0, 0]),
        ({"to": "time", "at": "1970-01-01T00:16:40.010"}, [5, 5]),
    ):
        _, form = changing.preview("timed", **query)
        assert changing.post("/groups/reset", **form, name="timed").status == 303
        assert changing.committed("timed") == expected


def test_wc10_a_group_that_has_moved_since_or_has_members_is_left_alone(changing: Changing) -> None:
    changing.commit("busy", 4, 6)
    _, form = changing.preview("busy", to="earliest")
    changing.commit("busy", 5, 6)
    refused = changing.post("/groups/reset", **form, name="busy")
    assert refused.status == 400 and "look at it again" in refused.text
    assert changing.committed("busy") == [5, 6]
    _, form = changing.preview("busy", to="earliest")
    member = Consumer({**changing.config, "group.id": "busy"})
    member.subscribe(["orders"])
    assert member.poll(60) is not None
    refused = changing.post("/groups/reset", **form, name="busy")
    assert refused.status == 400 and "1 member: stop them first" in refused.text
    text, form = changing.preview("busy", to="earliest")
    assert form == {} and "It cannot be done now: group busy is stable and has 1 member" in text
    member.close()


def test_wc10_a_form_that_was_written_by_hand_is_refused(changing: Changing) -> None:
    changing.commit("forms", 4, 6)
    form = {"group": "forms", "topic": "orders", "name": "forms"}
    for rows in ("", "0", "0:1", "x:1:2", "0:1:2:3", "0:1:", "-1:2:3", "0:4:99999999999999999999"):
        assert changing.post("/groups/reset", **form, rows=rows).status == 400, rows
    assert changing.post("/groups/reset", **form, rows="0:4:77").status in (303, 400)
    assert changing.post("/groups/reset", **{**form, "topic": "nosuch"}, rows="0::2").status in (400, 404)


def test_wc03_who_may_not_change_sees_no_form_and_is_refused(changing: Changing) -> None:
    changing.commit("seen", 4, 6)
    everything = {
        "/groups/reset": {"group": "seen", "topic": "orders", "name": "seen", "rows": "0:4:0"},
        "/topics/orders/configs/set": {"value.retention.ms": "1d", "was.retention.ms": "604800000"},
        "/cluster/move": {"topic": "orders", "partition": "0", "from": "0", "to": "0"},
        "/cluster/balance/run": {"moves": ""},
    }
    for visitor in (
        Visitor("ada", "form-token"),
        Visitor(
            "ada", "form-token", may_change=True, alters_cluster=False,
            alters_configs=lambda _: False, commits=lambda _: False,
        ),
    ):  # fmt: skip
        changing.console.visitor = visitor
        for path, form in everything.items():
            assert changing.post(path, **form).status == 403, path
        for path in ("/groups/seen?topic=orders", "/topics/orders/configs", "/cluster/balance"):
            text = changing.console.ask(path).text
            assert '<input type="hidden" name="token"' not in text, path
    assert changing.committed("seen") == [4, 6]


def test_wc12_a_visitor_changes_nothing_of_a_topic_or_group_that_is_not_seen(changing: Changing) -> None:
    changing.commit("hidden", 4, 6)
    changing.console.visitor = Visitor("bob", "form-token", may_change=True, sees="other".__eq__)
    form = {"group": "hidden", "topic": "orders", "name": "hidden", "rows": "0:4:0"}
    assert changing.post("/groups/reset", **form).status == 404
    assert changing.post("/topics/orders/configs/set", **{"value.retention.ms": "1d"}).status == 404
    assert changing.post("/cluster/move", topic="orders", partition="0", to="0").status == 404
    assert changing.committed("hidden") == [4, 6]


def test_a_configuration_is_set_checked_and_taken_back(changing: Changing) -> None:
    path = "/topics/orders/configs/set"
    done = changing.post(path, **{"value.retention.ms": "1d", "was.retention.ms": "604800000"})
    assert (done.status, done.headers["location"]) == (303, "/topics/orders/configs?changed=1")
    assert changing.config_of("retention.ms") == "86400000"
    text = changing.console.ask("/topics/orders/configs?changed=1").text
    assert 'name="value.retention.ms" value="86400000"' in text and "this topic" in text
    done = changing.post(
        path,
        **{"value.retention.ms": "86400000", "was.retention.ms": "86400000", "reset.retention.ms": "1",
           "value.flush.ms": "5", "was.flush.ms": str(2**63 - 1)},
    )  # fmt: skip
    assert done.status == 303 and changing.config_of("retention.ms") == "604800000"
    assert "which has no effect on it" in changing.console.ask("/topics/orders/configs?changed=1").text


def test_a_refused_value_is_shown_at_its_field_and_nothing_is_lost(changing: Changing) -> None:
    before = changing.config_of("segment.bytes")
    refused = changing.post(
        "/topics/orders/configs/set",
        **{"value.retention.bytes": "banana", "was.retention.bytes": "-1",
           "value.segment.bytes": "64MiB", "was.segment.bytes": before},
    )  # fmt: skip
    assert refused.status == 400
    at = refused.text.partition('id="problem-retention.bytes">')[2].partition("</p>")[0]
    assert "write retention.bytes=64MiB" in at
    assert 'id="problem-segment.bytes"' not in refused.text
    assert 'name="value.segment.bytes" value="64MiB"' in refused.text, "what was typed is still there"
    assert 'name="value.retention.bytes" value="banana"' in refused.text
    assert "siltstone topics configure orders retention.bytes=banana segment.bytes=67108864" in refused.text
    assert changing.config_of("segment.bytes") == before, "all or nothing"


def test_what_somebody_else_has_set_meanwhile_is_not_overwritten(changing: Changing) -> None:
    refused = changing.post(
        "/topics/orders/configs/set",
        **{"value.max.message.bytes": "2000000", "was.max.message.bytes": "1500000"},
    )
    assert refused.status == 409 and "it is 1048588 now, and was 1500000" in html.unescape(refused.text)
    assert changing.config_of("max.message.bytes") == "1048588"
    nothing = changing.post("/topics/orders/configs/set")
    assert nothing.status == 200 and "no value differs" in nothing.text


def test_what_is_wrong_with_values_together_is_said_above_the_form(changing: Changing) -> None:
    refused = changing.post(
        "/topics/orders/configs/set",
        **{"value.siltstone.table.format": "iceberg", "was.siltstone.table.format": "",
           "value.siltstone.table.mode": "upsert", "was.siltstone.table.mode": "append"},
    )  # fmt: skip
    assert refused.status == 400 and 'role="alert">nothing was changed:' in refused.text


def test_a_partition_moves_to_a_node_that_is_live(changing: Changing) -> None:
    page = changing.console.ask("/topics/orders/partitions/0").text
    assert "Node 0 leads it" in page and "No other node is live" in page
    assert changing.post("/cluster/move", topic="orders", partition="0", to="7").status == 400
    assert changing.post("/cluster/move", topic="orders", partition="9", to="0").status == 400
    outdated = changing.post("/cluster/move", topic="orders", partition="0", to="0", **{"from": "3"})
    assert outdated.status == 409
    here = changing.post("/cluster/move", topic="orders", partition="0", to="0", **{"from": "0"})
    assert here.status == 303, "it is there"


def test_a_balance_shows_loads_and_refuses_a_plan_that_is_outdated(changing: Changing) -> None:
    text = changing.console.ask("/cluster/balance").text
    assert "Nothing would be moved" in text and "siltstone balance plan --store" in text
    assert changing.post("/cluster/balance/run", moves="nosuch:0:0:1").status == 409


def test_without_a_broker_a_change_says_what_it_needs(
    changing: Changing, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with siltstone.Broker(tmp_path_factory.mktemp("quiet") / "store") as ended:
        admin = AdminClient({"bootstrap.servers": ended.bootstrap_servers, **QUIET})
        for future in admin.create_topics([NewTopic("orders", 2)]).values():
            future.result(60)
        with_group = Changing(ended)
        with_group.commit("readers", 0, 0)
    refused = with_group.post(
        "/topics/orders/configs/set", **{"value.retention.ms": "1d", "was.retention.ms": "604800000"}
    )
    assert refused.status == 503 and "start it with siltstone serve" in refused.text
    assert 'name="value.retention.ms" value="1d"' in refused.text
    text, form = with_group.preview("readers", to="earliest")
    assert form == {} and "start it with siltstone serve" in text and "siltstone groups reset" in text
