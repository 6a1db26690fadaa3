"""Which listeners the settings of a node make: their addresses, and those of them that encrypt."""

from collections.abc import Sequence

from siltstone.broker.security.bearer.key_set import (
    BearerExtraMissing,
    KeySetUnusable,
    jwt_module,
    parse_key_set,
)
from siltstone.broker.security.bearer.keys import KeysNotRead, read_keys
from siltstone.broker.security.bearer.settings import BearerSettings
from siltstone.runtime.clock import Clock
from siltstone.server.admin.addresses import encrypted_admin
from siltstone.server.network.addresses import ListenerAddress, parse_addresses
from siltstone.server.network.listener_settings import PLAIN, InvalidListenerSetting, ListenerSettings
from siltstone.server.network.tls import server_tls
from siltstone.server.settings.node import NodeSettings


def addresses_of(settings: NodeSettings) -> tuple[ListenerAddress, ...]:
    """Returns the addresses of the listeners of a broker. Raises InvalidListener."""
    return parse_addresses(
        [settings.listeners],
        [settings.advertised_listeners],
        settings.listener_security_protocol_map,
        settings.named_listeners,
    )


def encrypted_listeners(
    settings: NodeSettings, addresses: Sequence[ListenerAddress]
) -> dict[str, ListenerSettings]:
    """Returns name and settings of each listener with TLS, that of metrics and health included. Raises
    InvalidListener."""
    named = settings.named_listeners
    brokers = {each.name: named.get(each.name, PLAIN) for each in addresses if each.protocol.is_encrypted}
    return brokers | encrypted_admin(settings.admin, settings.admin_listener)


def refuse_unusable_files(settings: NodeSettings, addresses: Sequence[ListenerAddress], clock: Clock) -> None:
    """Checks the files of all listeners, before a process is started or a port is bound. Raises InvalidListener and
    InvalidListenerSetting."""
    maintenance = encrypted_admin(settings.admin.of_maintenance, settings.admin_listener)
    for name, listener in (encrypted_listeners(settings, addresses) | maintenance).items():
        server_tls(name, listener, clock.now_ms())
    for address in addresses:
        bearer = settings.named_listeners.get(address.name, PLAIN).bearer
        if bearer is not None and address.protocol.wants_login:
            refuse_unusable_keys(address.name, bearer, clock)


def refuse_unusable_keys(name: str, bearer: BearerSettings, clock: Clock) -> None:
    """Checks a file of keys, and that tokens can be checked. An issuer that does not answer now may do so at the first
    login. Raises InvalidListenerSetting."""
    try:
        jwt_module()
        if "://" not in bearer.keys:
            parse_key_set(read_keys(bearer.keys, bearer.authorities, clock), bearer.keys)
    except (BearerExtraMissing, KeysNotRead, KeySetUnusable) as wrong:
        raise InvalidListenerSetting(f"listener.{name}: {wrong}") from wrong
