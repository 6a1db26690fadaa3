"""A broker that takes tokens, the issuer of these tokens, and what clients need."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from support.broker.broker_process import BrokerProcess
from support.processes.cli import run
from support.security.https_server import https_server
from support.security.issuer import AUDIENCE, ISSUER, Issuer
from support.tls.authority import Authority


class Realm:
    """A broker, the issuer whose tokens it takes, and what clients need."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self.issuer = Issuer()
        self.authority = Authority(folder / "authority")
        self.issued = 0
        self.broker: BrokerProcess
        self.url = ""

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if path == "/keys":
            return 200, {}, self.issuer.key_set()
        self.issued += 1
        return 200, {}, msgspec.json.encode({"access_token": self.token(sub="loader"), "expires_in": 300})

    def token(self, **changed: Any) -> str:
        return self.issuer.token(time.time_ns() // 1_000_000, **changed)

    @property
    def trusted(self) -> str:
        return str(self.folder / "store" / "tls" / "ca.pem")

    def options(self) -> tuple[str, ...]:
        of_listener = {
            "sasl_mechanisms": "OAUTHBEARER", "oauth_jwks_url": f"{self.url}/keys",
            "oauth_ca_file": str(self.authority.file), "oauth_issuer": ISSUER, "oauth_audience": AUDIENCE,
            "oauth_algorithms": "RS256", **self.settings,
        }  # fmt: skip
        settings = [f"listener.SASL_SSL.{name}={value}" for name, value in of_listener.items()]
        words = [word for each in settings for word in ("--set", each)]
        return "--listener", "SASL_SSL://127.0.0.1:0", "--tls-self-signed", *words


@contextmanager
def running_realm(folder: Path, *options: str, **settings: str) -> Iterator[Realm]:
    """``settings``: of the listener. ``options``: of the command that serves."""
    made = Realm(folder, **settings)
    with (
        https_server(made.authority.issue("issuer"), made.answer) as made.url,
        BrokerProcess(folder / "store", options=(*options, *made.options())) as made.broker,
    ):
        yield made


def config_of(realm: Realm, token: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": realm.broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": realm.trusted,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 300, "ada", {"logicalCluster": "lkc-1"}),
    }


def called(realm: Realm, settings: dict[str, str], *words: str) -> Any:
    path = realm.folder / "client.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": realm.trusted,
        "sasl.mechanism": "OAUTHBEARER",
        **settings,
    }
    path.touch(0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return run(*words, "--client-config", str(path), "--bootstrap-server", realm.broker.bootstrap_servers)
