"""Admin listeners on a loop, and in a thread."""

import asyncio
import socket
from pathlib import Path

import pytest

from siltstone.runtime.clock import SystemClock
from siltstone.server.admin.listening import admin_thread, open_admin_listeners
from siltstone.server.kafka_node import running_kafka_node
from siltstone.server.network.addresses import InvalidListener, parse_addresses
from siltstone.server.network.sockets import CannotListen
from siltstone.server.settings.admin import AdminSettings
from siltstone.server.settings.node import load_node_settings
from support.metrics.scraping import http_get
from support.scenarios import in_loop

ON = AdminSettings(listeners="127.0.0.1:0")


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host, int(port)


def test_there_are_none_when_the_setting_is_off():
    async def main():
        async with open_admin_listeners(AdminSettings(), SystemClock()) as listeners:
            assert listeners is None

    asyncio.run(main())
    with admin_thread(AdminSettings(), SystemClock()) as thread:
        assert thread is None


def test_a_node_opens_no_store_when_its_admin_listeners_cannot_be_opened(tmp_path: Path):
    async def main():
        settings = load_node_settings(
            tmp_path / "store", environment={}, flags={"admin.listeners": "0.0.0.0:0"}
        )
        with pytest.raises(InvalidListener, match=r"admin\.open_to_network_without_login=true"):
            async with running_kafka_node(settings, parse_addresses(["127.0.0.1:0"])):
                pass

    asyncio.run(main())
    assert not (tmp_path / "store").exists()


@in_loop
async def test_each_listener_answers_until_it_is_closed() -> None:
    async with open_admin_listeners(
        AdminSettings(listeners="127.0.0.1:0,localhost:0"), SystemClock()
    ) as listeners:
        assert len(listeners.urls) == 2
        for url in listeners.urls:
            status, _, body = await asyncio.to_thread(http_get, address_of(url), "/livez")
            assert (status, body) == (200, "ok\n")
    with pytest.raises(ConnectionError):
        await asyncio.to_thread(http_get, address_of(listeners.urls[0]), "/livez")


def test_an_address_in_use_is_named_with_the_setting():
    async def main(port: int):
        settings = AdminSettings(listeners=f"127.0.0.1:0,127.0.0.1:{port}")
        with pytest.raises(CannotListen, match=r"choose another port \(the setting admin\.listeners\)"):
            async with open_admin_listeners(settings, SystemClock()):
                pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(main(taken.getsockname()[1]))


def test_a_thread_serves_until_it_is_stopped():
    with admin_thread(ON, SystemClock()) as thread:
        (url,) = thread._opened.result().urls
        status, _, body = http_get(address_of(url), "/readyz")
        assert (status, body) == (503, "not ready\nthe process is starting\n")
        assert http_get(address_of(url), "/metrics")[0] == 200
    with pytest.raises(ConnectionError):
        http_get(address_of(url), "/livez")


def test_what_keeps_a_thread_from_listening_is_raised_where_it_was_started():
    with pytest.raises(InvalidListener), admin_thread(AdminSettings(listeners="0.0.0.0:0"), SystemClock()):
        pass
