"""Parses the addresses of listeners, such as ``127.0.0.1:9092`` or ``EXTERNAL://[::1]:9093``, and their advertised
ones.

A client connects to a listener's address first, and from then on to the address that the broker advertises for that
listener. So 0.0.0.0, or no host at all, which mean "all addresses of this machine", cannot be advertised.

A listener is named after its protocol. For any other name ``listener.NAME.protocol`` says it, or, as in Kafka, an entry
in ``listener_security_protocol_map``: so nobody takes a listener for an encrypted one because of its name.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType

import msgspec

from siltstone.foundation.credentials import is_this_machine
from siltstone.model.access import SecurityProtocol
from siltstone.model.errors import InvalidRequest
from siltstone.server.network.listener_settings import ListenerSettings

DEFAULT_NAME = "PLAINTEXT"
PROTOCOLS = tuple(SecurityProtocol)

_LISTENER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_-]+)://)?(?:\[(?P<ipv6>[^\]]*)\]|(?P<host>[^:\[\]/]*)):(?P<port>\d{1,5})"
)
_EXAMPLE = "[NAME://]HOST:PORT, such as 127.0.0.1:9092 or EXTERNAL://[::1]:9093"
_PORT_MAX = 65_535
_NAMES = frozenset(SecurityProtocol)
_KNOWN = f"{', '.join(PROTOCOLS[:-1])} and {PROTOCOLS[-1]}"


class InvalidListener(InvalidRequest):
    """The text of a listener, or of its advertised address, is not allowed."""


class ListenerAddress(msgspec.Struct, frozen=True):
    """``host`` "" means every address of the machine, ``port`` 0 any free port, and ``advertised_port`` 0 the port
    that was bound."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def misleads_others(self) -> bool:
        """Whether clients on other machines can connect, but then get an advertised address that leads them to their
        own machine."""
        return not is_this_machine(self.host) and is_this_machine(self.advertised_host)

    def __str__(self) -> str:
        return f"{self.name}://{bracketed(self.host)}:{self.port}"


def parse_addresses(
    listeners: Sequence[str],
    advertised_listeners: Sequence[str] = (),
    protocols: str = "",
    settings: Mapping[str, ListenerSettings] = MappingProxyType({}),
) -> tuple[ListenerAddress, ...]:
    """Parses listeners; each text may have several, separated by commas. A listener without an entry in
    ``advertised_listeners`` advertises the address that it binds. ``protocols`` is the value of
    ``listener_security_protocol_map``, such as ``INTERNAL:PLAINTEXT,EXTERNAL:SSL``; ``settings`` are those of
    ``listener.NAME.*``, by name. Raises InvalidListener."""
    bound = list(_parsed("listeners", listeners))
    if not bound:
        raise InvalidListener(f"listeners is empty: name at least one as {_EXAMPLE}")
    advertised = {
        name: (host, port) for name, host, port in _parsed("advertised_listeners", advertised_listeners)
    }
    names = [name for name, _, _ in bound]
    spoken = _protocols(_parsed_protocols(protocols), settings)
    _refuse_without_protocol(names, spoken)
    _refuse_passwords_in_clear(names, spoken, settings)
    if unknown := advertised.keys() - set(names):
        raise InvalidListener(
            f"advertised_listeners names {', '.join(sorted(unknown))}, but listeners has only {', '.join(names)}"
        )
    _refuse_shared_ports(bound)
    return tuple(_address(name, host, port, advertised.get(name), spoken[name]) for name, host, port in bound)


def _parsed(setting: str, texts: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    seen: set[str] = set()
    for part in filter(None, (part.strip() for text in texts for part in text.split(","))):
        match = _LISTENER.fullmatch(part)
        if match is None:
            raise InvalidListener(f"{setting}: {part!r} is not a listener: write {_EXAMPLE}")
        name, port = (match["name"] or DEFAULT_NAME).upper(), int(match["port"])
        if port > _PORT_MAX:
            raise InvalidListener(f"{setting}: port {port} of {name} is above {_PORT_MAX}")
        if name in seen:
            raise InvalidListener(
                f"{setting}: the name {name} is used twice; give every listener its own name"
            )
        seen.add(name)
        yield name, _checked_host(setting, part, match["host"], match["ipv6"]), port


def _parsed_protocols(text: str) -> dict[str, SecurityProtocol]:
    """Listener name → protocol, as ``listener_security_protocol_map`` says. Raises InvalidListener."""
    protocols: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in entry.partition(":"))
        if protocol not in _NAMES or protocols.get(name, protocol) != protocol or name in _NAMES - {protocol}:
            raise InvalidListener(
                f"listener_security_protocol_map: {entry!r} is not NAME:PROTOCOL; the known protocols are {_KNOWN}"
            )
        protocols[name] = SecurityProtocol(protocol)
    return protocols


def _protocols(
    mapped: Mapping[str, SecurityProtocol], settings: Mapping[str, ListenerSettings]
) -> dict[str, SecurityProtocol]:
    """Listener name → protocol, from all three places that may say it. Raises InvalidListener."""
    said = {each.value: each for each in SecurityProtocol} | dict(mapped)
    for name, each in settings.items():
        protocol = each.protocol or said.get(name)
        if protocol is None:
            continue
        if said.get(name, protocol) is not protocol:
            raise InvalidListener(
                f"listener.{name}.protocol is {protocol}, but listener {name} is {said[name]} by its name or by "
                "listener_security_protocol_map: say it once"
            )
        said[name] = protocol
    return said


def _refuse_without_protocol(names: Iterable[str], protocols: Mapping[str, SecurityProtocol]) -> None:
    for name in names:
        if name not in protocols:
            raise InvalidListener(
                f"listeners: {name} is not a protocol; the known protocols are {_KNOWN}. For a listener of another "
                f"name, say what it speaks: listener.{name}.protocol={DEFAULT_NAME}, or "
                f"listener_security_protocol_map={name}:{DEFAULT_NAME}"
            )


def _refuse_passwords_in_clear(
    names: Iterable[str],
    protocols: Mapping[str, SecurityProtocol],
    settings: Mapping[str, ListenerSettings],
) -> None:
    for name in names:
        mechanisms = settings[name].mechanisms if name in settings else ()
        bare = [each for each in mechanisms if each.sends_its_secret]
        if protocols[name] is SecurityProtocol.SASL_PLAINTEXT and bare:
            raise InvalidListener(
                f"listener.{name}.sasl_mechanisms has {bare[0]}, which sends passwords or tokens as they are, and "
                f"{name} does not encrypt: set listener.{name}.protocol=SASL_SSL, or leave {bare[0]} out"
            )


def _checked_host(setting: str, part: str, host: str | None, ipv6: str | None) -> str:
    if ipv6 is None:
        return host or ""
    try:
        return str(IPv6Address(ipv6))
    except ValueError as wrong:
        raise InvalidListener(f"{setting}: {part!r}: {ipv6!r} is not an IPv6 address") from wrong


def _refuse_shared_ports(bound: Iterable[tuple[str, str, int]]) -> None:
    for (host, port), times in Counter((host, port) for _, host, port in bound if port).items():
        if times > 1:
            raise InvalidListener(f"listeners: the address {bracketed(host)}:{port} is used twice")


def _address(
    name: str, host: str, port: int, advertised: tuple[str, int] | None, protocol: SecurityProtocol
) -> ListenerAddress:
    advertised_host, advertised_port = advertised or (host, port)
    if _is_everywhere(advertised_host):
        raise InvalidListener(
            f"advertised_listeners (--advertised-listener): give the host under which clients reach {name}, as "
            f"{name}://HOST:{port}; it listens on {host or 'all addresses'}, and clients cannot connect to "
            f"{advertised_host or 'that'}"
        )
    return ListenerAddress(name, host, port, advertised_host, advertised_port, protocol)


def _is_everywhere(host: str) -> bool:
    return host == "" or (is_ip(host) and ip_address(host).is_unspecified)


def is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def written_host(peer_name: object) -> str:
    """Returns the client's host in a socket's peer name. An IPv4 client of an IPv6 socket gets its IPv4 address, so
    that it counts as one host."""
    if not isinstance(peer_name, tuple) or not peer_name:
        return "unknown"
    host = str(peer_name[0]).partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def written_port(peer_name: object) -> int:
    """Returns the client's port in a socket's peer name; 0 if it has none."""
    is_known = isinstance(peer_name, tuple) and len(peer_name) > 1 and isinstance(peer_name[1], int)
    return peer_name[1] if is_known else 0  # type: ignore[index]
