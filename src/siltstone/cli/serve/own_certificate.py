"""``siltstone serve --tls-self-signed``: a listener with TLS for a first try, without a certificate from elsewhere.

The certificate is made in the folder ``tls`` of the store at the first start, and kept. Beside it is a file with what
clients are given, for ``--client-config``.
"""

from pathlib import Path

import msgspec

from siltstone.cli.store_options import StoreChoice
from siltstone.model.access import LoginMechanism, SecurityProtocol
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.clock import Clock
from siltstone.server.network.self_signed import TLS_FOLDER, own_certificate
from siltstone.server.node_listeners import addresses_of
from siltstone.server.settings.node import NodeSettings

CLIENT_FILE = "client.properties"


class NoListenerWithTls(InvalidRequest):
    """No listener encrypts, so a certificate would have no effect."""


class ClientFile(msgspec.Struct, frozen=True):
    """What clients need besides an address: the lines, and the file that has them."""

    path: Path
    lines: tuple[str, ...]

    def write(self) -> None:
        self.path.write_text("".join(f"{line}\n" for line in self.lines))


def with_own_certificate(
    choice: StoreChoice, settings: NodeSettings, clock: Clock
) -> tuple[StoreChoice, ClientFile]:
    """Returns the choice with a certificate of our own for each listener with TLS that has none. A listener without a
    name, as in 127.0.0.1:9092, gets TLS. Raises NoListenerWithTls and CertificateNotMade."""
    flags = {**choice.flags, "listeners": _with_tls(settings.listeners)}
    if settings.advertised_listeners:
        flags["advertised_listeners"] = _with_tls(settings.advertised_listeners)
    given = msgspec.structs.replace(
        settings,
        listeners=flags["listeners"],
        advertised_listeners=flags.get("advertised_listeners", ""),
    )
    addresses = [each for each in addresses_of(given) if each.protocol.is_encrypted]
    if not addresses:
        raise NoListenerWithTls(
            "--tls-self-signed: no listener has TLS: write --listener SSL://HOST:PORT, or no name before the host"
        )
    hosts = [each.advertised_host for each in addresses]
    own = own_certificate(settings.folder / TLS_FOLDER, hosts, clock.now_ms())
    for address in addresses:
        named = settings.named_listeners.get(address.name)
        if named is None or not named.tls_certificate_file:
            flags |= own.settings_of(address.name)
    protocol = addresses[0].protocol
    lines = [f"security.protocol={protocol}", f"ssl.ca.location={own.authority}"]
    if protocol.wants_login:
        lines.append(f"sasl.mechanism={LoginMechanism.SCRAM_SHA_512}")
    file = ClientFile(settings.folder / TLS_FOLDER / CLIENT_FILE, tuple(lines))
    file.write()
    return msgspec.structs.replace(choice, flags=flags), file


def _with_tls(listeners: str) -> str:
    parts = (part.strip() for part in listeners.split(","))
    return ",".join(part if "://" in part else f"{SecurityProtocol.SSL}://{part}" for part in parts if part)
