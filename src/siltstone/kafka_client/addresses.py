"""Where brokers are, as people write it: ``host``, ``host:9093``, ``[::1]:9093``, several with commas between them."""

import re

import msgspec

from siltstone.kafka_client.failures import InvalidAddress

DEFAULT_PORT = 9092
PORT_MAX = 65_535

_ADDRESS = re.compile(
    r"(?:[A-Za-z0-9_-]+://)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]/,]+))(?::(?P<port>\d{1,5}))?"
)


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """At least one. Raises InvalidAddress."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidAddress("--bootstrap is empty: write HOST:PORT, such as 127.0.0.1:9092")
    return tuple(_parsed(part) for part in parts)


def _parsed(part: str) -> Address:
    match = _ADDRESS.fullmatch(part)
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= PORT_MAX:
        raise InvalidAddress(f"--bootstrap: {part!r} is no address: write HOST:PORT, such as 127.0.0.1:9092")
    return Address(match["ipv6"] or match["host"], port)
