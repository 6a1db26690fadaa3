"""Parses ``admin.listeners``, and decides which hosts a request may name.

An admin listener without a login is refused on an address that other machines reach, unless ``listener.ADMIN.*`` gives
it TLS and requires certificates of its clients, or ``admin.open_to_network_without_login`` says so. A browser on this
machine reaches it all the same, and a web page can point a name of its own at 127.0.0.1; so a request must name an IP
address, the listener's own host, or one of ``admin.allowed_hosts``.
"""

import re
from collections.abc import Collection

from siltstone.foundation.credentials import is_this_machine
from siltstone.model.access import SecurityProtocol
from siltstone.server.network.addresses import InvalidListener, ListenerAddress, is_ip
from siltstone.server.network.listener_settings import PLAIN, CertificateWanted, ListenerSettings
from siltstone.server.settings.admin import AdminSettings

NAME = "ADMIN"
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>\d{1,5})")
_PORT_MAX = 65_535


def parse_admin_addresses(
    settings: AdminSettings, listener: ListenerSettings = PLAIN
) -> tuple[ListenerAddress, ...]:
    """Returns the addresses of the admin listeners; none when they are off. ``listener``: the settings
    ``listener.ADMIN.*``. Raises InvalidListener."""
    if not settings.is_on:
        return ()
    protocol = listener.protocol or SecurityProtocol.PLAINTEXT
    addresses = tuple(
        _parsed(part.strip(), protocol) for part in settings.listeners.split(",") if part.strip()
    )
    if protocol is SecurityProtocol.SASL_SSL:
        return addresses
    if protocol.is_encrypted and listener.tls_client_auth is CertificateWanted.REQUIRED:
        return addresses
    open_ones = [str(each) for each in addresses if not is_this_machine(each.host)]
    if open_ones and protocol.wants_login:
        raise InvalidListener(
            f"listener.{NAME}.protocol is {protocol}, and other machines reach "
            f"{open_ones[0].removeprefix(f'{NAME}://')}: passwords would cross the network in clear; use SASL_SSL"
        )
    if open_ones and not settings.open_to_network_without_login:
        raise InvalidListener(
            f"admin.listeners: other machines reach {open_ones[0].removeprefix(f'{NAME}://')}, and would see metrics "
            "without a login: use 127.0.0.1, require a login (listener.ADMIN.protocol=SASL_SSL) or certificates "
            "(listener.ADMIN.tls_client_auth=required), or allow it with admin.open_to_network_without_login=true"
        )
    return addresses


def admin_wants_login(settings: AdminSettings, listener: ListenerSettings) -> bool:
    """Returns whether clients of the admin listeners have to log in."""
    protocol = listener.protocol or SecurityProtocol.PLAINTEXT
    return settings.is_on and protocol.wants_login


def encrypted_admin(settings: AdminSettings, listener: ListenerSettings) -> dict[str, ListenerSettings]:
    """Returns the name and the settings of the admin listeners, if there are any and they have TLS."""
    addresses = parse_admin_addresses(settings, listener)
    return {NAME: listener} if any(each.protocol.is_encrypted for each in addresses) else {}


def allowed_hosts(settings: AdminSettings, addresses: Collection[ListenerAddress]) -> frozenset[str]:
    """Returns the host names that a request may name, besides IP addresses."""
    named = (part.strip().lower() for part in settings.allowed_hosts.split(","))
    return frozenset({*filter(None, named), *(each.host.lower() for each in addresses if each.host)})


def may_be_called(host: str, allowed: Collection[str]) -> bool:
    """Returns whether a request for this host is answered. Only a browser can be led here by the name of another site,
    and a browser always sends the name."""
    return host == "" or host in allowed or is_ip(host)


def _parsed(text: str, protocol: SecurityProtocol) -> ListenerAddress:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _PORT_MAX or (match["ipv6"] and not is_ip(match["ipv6"])):
        raise InvalidListener(
            f"admin.listeners: {text!r} is not an address: write HOST:PORT, such as 127.0.0.1:9644, or off"
        )
    host, port = match["ipv6"] or match["host"] or "", int(match["port"])
    return ListenerAddress(NAME, host, port, host, port, protocol)
