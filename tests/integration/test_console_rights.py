"""Changes in the console of a broker whose clients log in: each is a request of the visitor to that broker."""

import base64
import html
import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import siltstone
from siltstone.metadata.acls import CreateAcls, SetAuthorization
from siltstone.model.access import Principal
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.model.audit import AUDIT_TOPIC
from siltstone.server.kafka_node import KafkaNode
from support.kafka.quiet_client import QUIET
from support.security.rights import allow

USERS = {"root": "stamp", "ada": "pencil", "eve": "paper"}
GRANTED = (
    (AclOperation.READ, AclResourceType.TOPIC, "orders"),
    (AclOperation.READ, AclResourceType.GROUP, "readers"),
    (AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, "orders"),
)
"""What ada may do: DESCRIBE follows from each."""


class SharedConsole:
    """The console of a broker; ada and eve visit it."""

    def __init__(self, broker: siltstone.Broker) -> None:
        self.broker = broker
        self.config = {**broker.client_config("root"), **QUIET}

        async def set_up(node: KafkaNode) -> str:
            rows = [allow(*each, principal=Principal("ada")) for each in GRANTED]
            describes = [
                allow(AclOperation.DESCRIBE, kind, name, principal=Principal("eve"))
                for kind, name in ((AclResourceType.TOPIC, "orders"), (AclResourceType.GROUP, "readers"))
            ]
            await node.node.metadata.execute(CreateAcls((*rows, *describes)))
            await node.node.metadata.execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
            assert node.admin is not None
            return node.admin.urls[0].partition("://")[2]

        self.address = broker._thread().ask(set_up)

    def ask(self, user: str, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        login = base64.b64encode(f"{user}:{USERS[user]}".encode()).decode()
        headers = {"Authorization": f"Basic {login}"}
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            if form is None:
                connection.request("GET", path, headers=headers)
            else:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
                connection.request("POST", path, urlencode(form), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def token(self, user: str) -> str:
        """The token of ada's forms is on a page that she sees; another one's is not known to her."""
        found = re.search(r'name="token" value="(\w+)"', self.ask(user, "/topics/orders/configs")[1])
        return "" if found is None else found[1]

    def committed(self) -> int:
        consumer = Consumer({**self.config, "group.id": "readers"})
        (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=60)
        consumer.close()
        return int(found.offset)

    def preview(self, user: str) -> tuple[str, dict[str, str]]:
        text = self.ask(user, "/groups/readers?topic=orders&to=offset&at=2")[1]
        form = text.partition('action="/groups/reset"')[2].partition("</form>")[0]
        fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
        return text, {name: html.unescape(value) for name, value in fields}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedConsole]:
    folder: Path = tmp_path_factory.mktemp("rights") / "store"
    settings = {
        "admin.listeners": "127.0.0.1:0", "admin.console": "true",
        "listener.ADMIN.protocol": "SASL_PLAINTEXT", "broker.audit": "changes",
    }  # fmt: skip
    with siltstone.Broker(folder, users=USERS, settings=settings) as broker:
        config = {**broker.client_config("root"), **QUIET}
        broker.create_topic("orders")
        producer = Producer(config)
        for number in range(10):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer({**config, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 6)], asynchronous=False)
        consumer.close()
        yield SharedConsole(broker)


def audited(config: dict[str, object], event: str) -> list[dict]:
    """Returns the events of that name that the audit has, when it has one."""
    consumer = Consumer({**config, "group.id": "auditors", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(AUDIT_TOPIC, index, 0) for index in range(8)])
    found: list[dict] = []
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            told = json.loads(message.value() or b"")
            found += [told] if told["event"] == event and told.get("principal") == "User:ada" else []
    consumer.close()
    return found


def test_wc03_who_may_only_describe_sees_no_form_and_is_refused(shared: SharedConsole) -> None:
    text, form = shared.preview("eve")
    assert "4 records would be read again" in text and form == {}
    assert shared.token("eve") == ""
    assert shared.ask("eve", "/cluster")[0] == 403
    for path in ("/groups/reset", "/topics/orders/configs/set", "/cluster/move"):
        for token in ("", shared.token("ada")):
            assert shared.ask("eve", path, {"token": token})[0] == 403, path


def test_wc03_configurations_are_seen_with_the_right_to_describe_them(shared: SharedConsole) -> None:
    """As with DescribeConfigs: who may describe a topic may not see its configurations by that."""
    for path in ("/topics/orders", "/topics/orders/configs"):
        assert "retention.ms" in shared.ask("ada", path)[1], path
        status, text = shared.ask("eve", path)
        assert "604800000" not in text and "DESCRIBE_CONFIGS" in text, path
        assert status == (403 if path.endswith("configs") else 200)


def test_wc03_the_overview_shows_the_cluster_with_its_right_only(shared: SharedConsole) -> None:
    seen = {user: shared.ask(user, "/")[1] for user in ("root", "eve")}
    for words in (
        "In objects</dt>",
        "Brokers",
        "Waiting for deletion",
        "chart of the traffic|<figure",
        "Room</h2>",
    ):
        found = {user for user, text in seen.items() if re.search(words, re.sub("<a[^>]*>|</a>", "", text))}
        assert found == {"root"}, words
    assert all("orders" in text for text in seen.values())


def test_wc10_a_reset_is_the_request_of_the_visitor_and_stands_in_the_audit(shared: SharedConsole) -> None:
    _, form = shared.preview("ada")
    assert form["rows"] == "0:6:2"
    forged = {**form, "token": "0" * 64, "name": "readers"}
    assert shared.ask("ada", "/groups/reset", forged)[0] == 403
    assert shared.committed() == 6
    assert shared.ask("ada", "/groups/reset", {**form, "name": "readers"})[0] == 303
    assert shared.committed() == 2
    assert audited(shared.config, "offsets"), "under her name"
    status, text = shared.ask("ada", "/groups/reset", {**form, "name": "readers"})
    assert status == 400 and "look at it again" in text, "the same form again"


def test_wc03_configurations_are_set_with_the_right_to_alter_them(shared: SharedConsole) -> None:
    form = {"token": shared.token("ada"), "value.retention.ms": "1d", "was.retention.ms": "604800000"}
    assert shared.ask("ada", "/topics/orders/configs/set", form)[0] == 303
    text = shared.ask("ada", "/topics/orders/configs")[1]
    assert 'name="value.retention.ms" value="86400000"' in text


def test_wc03_moves_need_the_right_to_alter_the_cluster(shared: SharedConsole) -> None:
    form = {"token": shared.token("ada"), "topic": "orders", "partition": "0", "from": "0", "to": "0"}
    assert shared.ask("ada", "/cluster/move", form)[0] == 403
    text = shared.ask("root", "/topics/orders/configs")[1]
    token = re.search(r'name="token" value="(\w+)"', text)
    assert token is not None
    assert shared.ask("root", "/cluster/move", {**form, "token": token[1]})[0] == 303
    run = {"token": token[1], "kind": "sweep"}
    status, text = shared.ask("root", "/maintenance/run", run)
    assert status == 400 and "a broker runs no maintenance" in text
