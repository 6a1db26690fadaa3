from pathlib import Path

import pytest

from siltstone.cli.serve.own_certificate import NoListenerWithTls, with_own_certificate
from siltstone.cli.store_options import StoreChoice
from siltstone.runtime.clock import SystemClock
from siltstone.server.node_listeners import addresses_of


def chosen(folder: Path, **flags: str) -> StoreChoice:
    return StoreChoice(folder, None, {name.replace("__", "."): value for name, value in flags.items()})


def listeners(choice: StoreChoice) -> list[tuple[str, str, bool]]:
    settings = choice.settings()
    return [
        (str(each), each.protocol, bool(settings.named_listeners.get(each.name)))
        for each in addresses_of(settings)
    ]


def test_a_listener_without_a_name_gets_tls(tmp_path: Path) -> None:
    choice = chosen(tmp_path)
    choice, file = with_own_certificate(choice, choice.settings(), SystemClock())
    assert listeners(choice) == [("SSL://127.0.0.1:9092", "SSL", True)]
    assert file.path.read_text() == f"security.protocol=SSL\nssl.ca.location={tmp_path}/tls/ca.pem\n"


def test_named_listeners_keep_what_they_speak_and_what_they_have(tmp_path: Path) -> None:
    names = {
        "listeners": "PLAINTEXT://127.0.0.1:1,OUT://127.0.0.1:2,MINE://127.0.0.1:3",
        "advertised_listeners": "OUT://broker.example:2",
        "listener__OUT__protocol": "SSL",
        "listener__MINE__protocol": "SSL",
        "listener__MINE__tls_certificate_file": "mine.pem",
    }
    choice = chosen(tmp_path, **names)
    choice, _ = with_own_certificate(choice, choice.settings(), SystemClock())
    assert [protocol for _, protocol, _ in listeners(choice)] == ["PLAINTEXT", "SSL", "SSL"]
    settings = choice.settings()
    assert settings.named_listeners["OUT"].tls_certificate_file == f"{tmp_path}/tls/broker.pem"
    assert settings.named_listeners["MINE"].tls_certificate_file == f"{tmp_path}/mine.pem"


def test_without_a_listener_that_encrypts_it_has_no_effect(tmp_path: Path) -> None:
    choice = chosen(tmp_path, listeners="PLAINTEXT://127.0.0.1:1")
    with pytest.raises(NoListenerWithTls, match="no listener has TLS"):
        with_own_certificate(choice, choice.settings(), SystemClock())
