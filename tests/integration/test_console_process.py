"""``siltstone console`` as a process, and the console of a broker's admin listener, over sockets."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import siltstone
from siltstone.metadata.acls import CreateAcls, SetAuthorization
from siltstone.model.access import Principal
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.scanning.streaming.advancing import StreamLag
from siltstone.scanning.streaming.group_progress import StreamGroupProgress
from siltstone.scanning.streaming.position import StreamPosition
from siltstone.server.kafka_node import KafkaNode
from support.kafka.quiet_client import QUIET
from support.security.rights import allow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with siltstone.Broker(tmp_path_factory.mktemp("console") / "store") as broker:
        return broker.folder


@contextmanager
def running_console(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen, str, str]]:
    """Yields the process, its address and the token of its link."""
    command = [sys.executable, "-m", "siltstone", "console", "--store", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.search(r"http://(\S+)/\?token=(\w+)", process.stdout.readline())
            assert match is not None
            yield process, match[1], match[2]
        finally:
            process.terminate()
            process.wait(30)


def get(address: str, path: str, **headers: str) -> tuple[int, str, str]:
    """Returns status, text, and the cookie that is set."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        cookie = answer.headers.get("Set-Cookie", "")
        return answer.status, answer.read().decode(), cookie
    finally:
        connection.close()


def test_wc04_the_link_lets_one_browser_in_and_signals_end_it(folder: Path) -> None:
    for sent in (signal.SIGINT, signal.SIGTERM):
        with running_console(folder) as (process, address, token):
            assert get(address, "/")[0] == 401
            status, _, cookie = get(address, f"/?token={token}")
            assert status == 303 and "HttpOnly" in cookie and "SameSite=strict" in cookie
            session = cookie.partition(";")[0]
            status, text, _ = get(address, "/", Cookie=session)
            assert status == 200 and "Nothing is wrong" in text
            assert get(address, f"/?token={token}")[0] == 401, "it was used"
            assert get(address, "/", Cookie=session, Host="evil.example")[0] == 421
            process.send_signal(sent)
            assert process.wait(30) == 0


def test_connections_that_send_nothing_keep_nobody_out(folder: Path) -> None:
    with running_console(folder) as (_, address, token):
        host, _, port = address.partition(":")
        idle = [socket.create_connection((host, int(port)), timeout=60) for _ in range(200)]
        assert get(address, f"/?token={token}")[0] == 303
        for each in idle:
            each.close()


def test_a_port_that_is_taken_is_refused_with_what_to_do(folder: Path) -> None:
    with running_console(folder) as (_, address, _token):
        port = address.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "siltstone", "console", "--store", str(folder), "--port", port],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2 and "choose another --port" in done.stderr


@contextmanager
def broker_with_console(tmp_path: Path, **more: object) -> Iterator[tuple[siltstone.Broker, str]]:
    settings = {"admin.listeners": "127.0.0.1:0", "admin.console": "true", **more.pop("settings", {})}  # type: ignore[dict-item]

    async def url(node: KafkaNode) -> str:
        assert node.admin is not None
        return node.admin.urls[0].partition("://")[2]

    with siltstone.Broker(tmp_path / "store", settings=settings, **more) as broker:  # type: ignore[arg-type]
        yield broker, broker._thread().ask(url)


def test_wc01_the_listener_of_a_broker_has_the_console_beside_metrics_and_health(tmp_path: Path) -> None:
    with broker_with_console(tmp_path) as (_, address):
        for path in ("/livez", "/readyz", "/metrics", "/", "/topics", "/maintenance/plan"):
            assert get(address, path)[0] == 200, path
        assert "read only" in get(address, "/")[1]
        assert (
            get(address, "/", Host="evil.example")[0]
            == get(address, "/metrics", Host="evil.example")[0]
            == 421
        )
        assert get(address, "/nothing")[0] == 404


def test_a_group_shows_what_it_has_left_to_read_and_what_a_reset_would_read_again(tmp_path: Path) -> None:
    """In a broker the positions are those of this moment, without an upload."""
    with broker_with_console(tmp_path) as (broker, address):
        config = {"bootstrap.servers": broker.bootstrap_servers, **QUIET}
        producer = Producer(config)
        for number in range(10):
            producer.produce("orders", str(number), partition=0, timestamp=1_000_000 + number)
        assert producer.flush(60) == 0
        consumer = Consumer({**config, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()
        query = StreamGroupProgress("daily")
        with siltstone.open_store(broker.folder) as store:
            topic_id = store.metadata.refresh().topic_ids["orders"]
            query.commit(
                store.context, StreamPosition("x", {topic_id: "orders"}, {(topic_id, 0): 3}), StreamLag
            )
        text = get(address, "/groups")[1]
        assert re.search(
            r'>daily</a></th><td class="n">7<small>about 7\.0 KiB</small></td>.*<td>streaming query daily on \S+</td>',
            text,
        )
        assert "streaming query daily on" in get(address, "/groups/daily")[1]
        assert '<a href="/groups/readers">readers</a></th><td class="n">6<small>about 6.0 KiB<' in text
        assert (
            'readers</a></th><td class="n">6<small>about 6.0 KiB</small></td>'
            in get(address, "/topics/orders/groups")[1]
        )
        for query, again, skipped in (
            ("to=earliest", 4, 0), ("to=latest", 0, 6), ("to=offset&at=7", 0, 3), ("to=offset&at=99", 0, 6),
        ):  # fmt: skip
            text = get(address, f"/groups/readers?topic=orders&{query}")[1]
            assert f"{again} records would be read again, and {skipped} would be skipped" in text, query
        assert "siltstone groups reset readers --topic orders --to 99" in text
        assert get(address, "/groups/readers?topic=orders&to=offset&at=x")[0] == 400
        assert get(address, "/groups/readers?topic=orders&to=nonsense")[0] == 400
        assert get(address, "/groups/nobody")[0] == 404
        rows = get(address, "/sql/rows?q=select+lag_records+from+siltstone.groups")[1]
        assert "<td>6</td>" in rows
        rows = get(address, "/sql/rows?q=select+count(*)+>+5+from+siltstone.log")[1]
        assert "<td>True</td>" in rows
        consumer = Consumer({**config, "group.id": "team/<b>a b</b>"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()
        (link,) = re.findall(r'href="(/groups/team[^"]*)"', get(address, "/groups")[1])
        assert "<h1>team/&lt;b&gt;a b&lt;/b&gt;</h1>" in get(address, link)[1]


def test_wc01_a_broker_without_the_setting_loads_no_web_framework() -> None:
    code = (
        "import sys, siltstone\n"
        "with siltstone.Broker(): pass\n"
        "assert 'uvicorn' not in sys.modules and 'h11' not in sys.modules\n"
        "with siltstone.Broker(settings={'admin.listeners': '127.0.0.1:0'}): pass\n"
        "assert 'uvicorn' in sys.modules\n"
        "assert 'starlette' not in sys.modules and 'jinja2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env={**os.environ})


def test_wc01_a_console_without_a_login_shows_nothing_of_a_broker_whose_clients_log_in(
    tmp_path: Path,
) -> None:
    with broker_with_console(tmp_path, users={"root": "stamp"}) as (_, address):
        for path in ("/", "/topics", "/sql/rows?q=select+1", "/objects"):
            status, text, _ = get(address, path)
            assert status == 401 and "listener.ADMIN.protocol" in text, path
        assert get(address, "/livez")[0] == get(address, "/metrics")[0] == 200


def test_wc03_everybody_on_the_machine_has_the_rights_of_anonymous_clients(tmp_path: Path) -> None:
    with broker_with_console(tmp_path) as (broker, address):

        async def set_up(node: KafkaNode) -> None:
            await node.node.metadata.execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))

        assert get(address, "/objects")[0] == 200
        broker._thread().ask(set_up)
        assert get(address, "/objects")[0] == 403
        assert get(address, "/")[0] == 200


def test_wc03_users_see_what_their_rights_allow(tmp_path: Path) -> None:
    import base64

    users = {"root": "stamp", "ada": "pencil"}
    settings = {"listener.ADMIN.protocol": "SASL_PLAINTEXT"}
    with broker_with_console(tmp_path, users=users, settings=settings) as (broker, address):

        async def set_up(node: KafkaNode) -> None:
            execute = node.node.metadata.execute
            ada = Principal("ada")
            await execute(
                CreateAcls((allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders", principal=ada),))
            )
            await execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))

        def login(user: str) -> str:
            return "Basic " + base64.b64encode(f"{user}:{users[user]}".encode()).decode()

        broker._thread().ask(set_up)
        assert get(address, "/livez")[0] == 200
        for path in ("/", "/topics", "/objects", "//topics", "/topics/x/messages"):
            assert get(address, path)[0] in (401, 404), path
        assert get(address, "/", Authorization=login("ada"))[0] == 200
        assert get(address, "/objects", Authorization=login("ada"))[0] == 403
        assert get(address, "/objects", Authorization=login("root"))[0] == 200
        assert get(address, "/", Authorization="Basic " + base64.b64encode(b"ada:wrong").decode())[0] == 401
