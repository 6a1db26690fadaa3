"""TL17: the check of a start finds what a start would refuse, and changes nothing."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.metadata.acls import SetAuthorization
from siltstone.metadata.commands import PutKey
from siltstone.metadata.node_address import NODE_LISTENER_KEY
from siltstone.model.acls import AuthorizationMode
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.server.components import running_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.server.start_check import (
    StartFinding,
    StartOutcome,
    port_findings,
    ports_of,
    start_findings,
)
from support.tls.authority import Authority

OK, WARNING, REFUSED, AWAY = StartOutcome


def settings_of(folder: Path, **flags: str) -> NodeSettings:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load_node_settings(folder, environment={}, flags={"listeners": "127.0.0.1:0", **named})


def found(settings: NodeSettings) -> dict[str, StartFinding]:
    findings = [*start_findings(settings, SystemClock(), seeded_randomness(7))]
    assert all("\n" not in each.text for each in findings)
    by_what = {each.what: each for each in findings}
    assert len(by_what) == len(findings)
    return by_what


def refused(settings: NodeSettings) -> dict[str, str]:
    return {what: each.text for what, each in found(settings).items() if each.outcome is REFUSED}


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Path → mode, time of the last change and content of everything below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that a node has served."""

    async def serve_once() -> None:
        async with running_node(settings_of(tmp_path / "store")):
            pass

    asyncio.run(serve_once())
    return tmp_path / "store"


def test_tl17_a_store_that_is_not_there_yet_can_be_started_and_is_not_made(tmp_path: Path) -> None:
    findings = found(settings_of(tmp_path / "store"))
    assert {each.outcome for each in findings.values()} == {OK}
    assert "the start makes a new store" in findings["metadata"].text
    assert findings["authorization"].text.startswith("off")
    assert findings["bucket 0"].text.endswith("bucket, which the start makes")
    assert [*tmp_path.iterdir()] == []


def test_tl17_the_check_of_a_store_writes_nothing(store: Path) -> None:
    (store / "metadata.sqlite").chmod(0o644)
    before = tree(store)
    findings = found(settings_of(store))
    assert tree(store) == before
    assert findings["bucket 0"].text.endswith("is this store's")
    assert findings["metadata"].outcome is WARNING
    assert "has mode 0644" in findings["metadata"].text and "makes it 0600" in findings["metadata"].text
    assert not refused(settings_of(store))


def test_tl17_the_check_of_a_store_that_is_served_sees_it_as_it_is(store: Path) -> None:
    async def check_while_served() -> dict[str, str]:
        async with running_node(settings_of(store)):
            return await asyncio.to_thread(refused, settings_of(store))

    assert asyncio.run(check_while_served()) == {}


def changed_store(store: Path, *commands: object) -> None:
    with open_store(settings_of(store)) as opened:
        for each in commands:
            opened.metadata.execute(each)  # type: ignore[arg-type]


def test_tl17_rights_that_are_weaker_than_the_floor_and_a_listener_that_no_node_may_lack(store: Path) -> None:
    assert (
        "broker.authorization is on"
        in refused(settings_of(store, broker__authorization="on"))["authorization"]
    )
    changed_store(
        store,
        SetAuthorization(AuthorizationMode.ON, ("User:root",)),
        PutKey(NODE_LISTENER_KEY, b"INSIDE", overwrite=True),
    )
    findings = found(settings_of(store, broker__authorization="on"))
    assert findings["authorization"] == StartFinding("authorization", OK, "on, super users: User:root")
    assert findings["listener of the nodes"].outcome is REFUSED
    assert "has no listener INSIDE" in findings["listener of the nodes"].text
    open_to_all = settings_of(
        store, listeners="INSIDE://0.0.0.0:9092", advertised_listeners="INSIDE://host.example:9092",
        listener_security_protocol_map="INSIDE:PLAINTEXT",
    )  # fmt: skip
    findings = found(open_to_all)
    assert findings["listener of the nodes"].outcome is OK
    assert findings["authorization"].outcome is WARNING
    assert "has neither TLS nor a login" in findings["authorization"].text


def test_tl17_the_bucket_of_another_store_and_one_that_is_gone(store: Path, tmp_path: Path) -> None:
    other = settings_of(tmp_path / "other", **{"buckets.0": (store / "bucket").as_uri()})
    assert "belongs to store" in refused(other)["bucket 0"]
    (store / "bucket").rename(store / "moved")
    (store / "bucket").mkdir()
    assert "has no siltstone-store.json" in refused(settings_of(store))["bucket 0"]


def test_tl17_a_bucket_and_metadata_that_do_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    bucket = f"s3://bucket/prefix?endpoint_url=http://127.0.0.1:{port}&region=us-east-1&anonymous=true"
    findings = found(settings_of(tmp_path, **{"buckets.0": bucket}))
    assert [what for what, each in findings.items() if each.outcome is not OK] == ["bucket 0"]
    assert findings["bucket 0"].outcome is AWAY
    (tmp_path / "metadata.sqlite").write_bytes(b"no database" * 100)
    assert "is not a metadata database" in refused(settings_of(tmp_path))["metadata"]


def test_tl17_files_of_secrets_that_everybody_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Authority(tmp_path / "authority").issue("broker", days=9)
    secret = tmp_path / "secret"
    secret.write_text("v4lue" * 4)
    flags = {
        "listeners": "SSL://127.0.0.1:0",
        **pair.settings(),
        "admin.listeners": "127.0.0.1:0",
        "admin.metrics_token_file": str(secret),
        "tables.catalog.token": f"file:{secret}",
        "tables.catalog.credential": "env:NOT_THERE",
    }
    monkeypatch.setenv("SILTSTONE_REGISTRY_AUTH_FILE", str(secret))
    monkeypatch.setenv("SILTSTONE_CLIENT_CONFIG", str(tmp_path / "none.properties"))
    settings = settings_of(tmp_path / "store", **flags)
    secret.chmod(0o644)
    wrong = refused(settings)
    open_ones = ["admin.metrics_token_file", "tables.catalog.token", "SILTSTONE_REGISTRY_AUTH"]
    assert {*wrong} == {*open_ones, "tables.catalog.credential", "SILTSTONE_CLIENT_CONFIG"}
    assert all("every user of this machine may read" in wrong[each] for each in open_ones)
    assert "no variable NOT_THERE" in wrong["tables.catalog.credential"]
    assert "v4lue" not in str(wrong)
    secret.chmod(0o440)
    assert {*refused(settings)} == {"tables.catalog.credential", "SILTSTONE_CLIENT_CONFIG"}
    certificate = found(settings)["certificate of listener SSL"]
    assert certificate.outcome is WARNING and "good for 9 days: renew" in certificate.text
    pair.key.chmod(0o644)
    assert "every user of this machine may read" in refused(settings)["certificate of listener SSL"]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_tl17_a_port_that_another_process_has(tmp_path: Path, taken: int) -> None:
    settings = settings_of(tmp_path, listeners=f"127.0.0.1:{taken}", **{"admin.listeners": "127.0.0.1:0"})
    listener, admin = asyncio.run(port_findings(ports_of(settings)))
    assert (listener.what, listener.outcome) == (f"port {taken}", REFUSED)
    assert "another process listens there" in listener.text
    assert (admin.what, admin.outcome) == ("a free port", OK)
