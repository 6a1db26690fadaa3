"""A master that is not there is said at once, with its name. Loopback only."""

import socket

import pytest

from siltstone.model.errors import Unavailable
from siltstone.spark import master
from siltstone.spark.master import MasterMalformed, SparkNotStarted, refuse_silent_master
from siltstone.spark.starting import start_context
from support.processes.ports import free_port


def test_one_that_is_not_there_is_named_before_a_jvm_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.spark.starting.active_context", lambda: None)  # other tests may have one
    monkeypatch.setattr("siltstone.spark.starting.find_java", lambda: pytest.fail("a Java was looked for"))
    url = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(SparkNotStarted, match=f"the Spark master {url} does not answer .*refused") as raised:
        start_context(url)
    assert isinstance(raised.value, Unavailable)


def test_one_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refuse_silent_master(f"spark://127.0.0.1:{port}")
        refuse_silent_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")


@pytest.mark.parametrize("other", ["local[*]", "local", "yarn", "k8s://https://127.0.0.1:1"])
def test_others_name_no_address_and_are_not_asked(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master.socket, "create_connection", lambda *_: pytest.fail("asked"))
    refuse_silent_master(other)


def test_one_without_a_port_has_sparks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refused(address: tuple[str, int], _seconds: float) -> None:
        asked.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(master.socket, "create_connection", refused)
    with pytest.raises(SparkNotStarted):
        refuse_silent_master("spark://here,[::1]:7078")
    assert asked == [("here", 7077), ("::1", 7078)]


@pytest.mark.parametrize("url", ["spark://", "spark://:7077", "spark://here:port", "spark://here:0"])
def test_one_that_names_nothing(url: str) -> None:
    with pytest.raises(MasterMalformed, match="spark://HOST:PORT"):
        refuse_silent_master(url)


@pytest.mark.parametrize("port", [1, 65_535])
def test_the_first_and_the_last_port(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Connected:
        def close(self) -> None:
            asked.append("closed")

    monkeypatch.setattr(
        master.socket, "create_connection", lambda where, _: (asked.append(where), Connected())[1]
    )
    refuse_silent_master(f"spark://here:{port}")
    assert asked == [("here", port), "closed"]


@pytest.mark.parametrize("port", ["65536", "²"])
def test_a_port_that_is_none(port: str) -> None:
    with pytest.raises(MasterMalformed):
        refuse_silent_master(f"spark://here:{port}")
