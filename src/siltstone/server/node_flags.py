"""The settings in which the nodes of one machine differ (``siltstone serve --nodes N``, ``siltstone.Broker(nodes=N)``):
number, addresses, and folder of the log.

The first node has the addresses of the settings, and each further one the next port, as port 9093 after 9092. Port 0,
which means any free port, stays.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.server.admin.addresses import parse_admin_addresses
from siltstone.server.network.addresses import InvalidListener, ListenerAddress, bracketed
from siltstone.server.node_listeners import addresses_of
from siltstone.server.settings.node import NodeSettings

PORT_MAX = 65_535


def flags_of_nodes(settings: NodeSettings, count: int) -> dict[int, dict[str, str]]:
    """Node id → the settings of that node alone, by name. Raises InvalidListener: two nodes would have one address, or
    a port would be too high."""
    first = settings.engine.node_id
    listeners = addresses_of(settings)
    admin = parse_admin_addresses(settings.admin, settings.admin_listener)
    _refuse_shared_ports([*listeners, *admin], count)
    return {
        first + number: dict(_flags(settings, listeners, admin, first, number)) for number in range(count)
    }


def _flags(
    settings: NodeSettings,
    listeners: Sequence[ListenerAddress],
    admin: Sequence[ListenerAddress],
    first: int,
    number: int,
) -> Iterator[tuple[str, str]]:
    yield "engine.node_id", str(first + number)
    own = [moved(each, number) for each in listeners]
    yield "listeners", ",".join(map(str, own))
    if settings.advertised_listeners:
        hosts = [f"{each.name}://{bracketed(each.advertised_host)}:{each.advertised_port}" for each in own]
        yield "advertised_listeners", ",".join(hosts)
    if admin:
        yield (
            "admin.listeners",
            ",".join(
                f"{bracketed(each.host)}:{each.port}" for each in (moved(each, number) for each in admin)
            ),
        )
    if (
        settings.wal_folder != settings.folder / f"wal/node-{first}"
    ):  # one was named, and each node needs its own
        yield "wal_folder", str(settings.wal_folder / f"node-{first + number}")


def moved(address: ListenerAddress, by: int) -> ListenerAddress:
    """Returns the address of the node that is ``by`` behind the first. Port 0 stays."""

    def later(port: int) -> int:
        return port + by if port else 0

    return msgspec.structs.replace(
        address, port=later(address.port), advertised_port=later(address.advertised_port)
    )


def _refuse_shared_ports(addresses: Sequence[ListenerAddress], count: int) -> None:
    """Raises InvalidListener."""
    taken: dict[int, ListenerAddress] = {}
    for address in addresses:
        if not address.port:
            continue
        if address.port + count - 1 > PORT_MAX:
            raise InvalidListener(
                f"{address}: {count} nodes need {count} ports from there on, and {PORT_MAX} is the last"
            )
        for port in range(address.port, address.port + count):
            if (other := taken.setdefault(port, address)) is not address:
                raise InvalidListener(
                    f"each of the {count} nodes listens one port higher than the one before, so {other} and "
                    f"{address} meet at port {port}: leave {count} ports free from each address on"
                )
