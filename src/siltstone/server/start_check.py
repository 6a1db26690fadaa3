"""Looks at everything that a start of a node needs, without starting it: ``siltstone serve --check``.

Nothing is created, written or mended, and no client is let in: a port is bound for a moment and not listened on. Each
check gives one *finding*; one that fails does not hide the others. Two rest on others: without metadata nobody can say
whether a bucket is this store's, or what the rights are. Read next: ``kafka_node``, which does the same for good.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from siltstone.broker.request import Listener
from siltstone.broker.security.authorizer import refuse_weaker_mode
from siltstone.broker.security.bearer.settings import BearerSettings
from siltstone.foundation.credentials import WAREHOUSE, is_reference, is_this_machine
from siltstone.kafka_client.client_settings import CONFIG_VARIABLE, settings_of_process
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store.opening import log_exists, shown_url, sqlite_path_of
from siltstone.metadata.store.port import LogOutOfReach
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.metadata.store_id import store_id_of
from siltstone.model.acls import AuthorizationMode
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DAY_MS, SECOND_MS
from siltstone.object_store.port import StoreTransient
from siltstone.offline.context import guard_of
from siltstone.offline.opening.store import missing_folder, open_buckets, open_metadata
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import PRIVATE_FILE_MODE
from siltstone.runtime.randomness import Random
from siltstone.runtime.secret_sources import REGISTRY_AUTH_VARIABLE, resolved, secret_of_variables
from siltstone.server.admin.access import read_metrics_token
from siltstone.server.admin.addresses import NAME as ADMIN_NAME
from siltstone.server.admin.addresses import encrypted_admin, parse_admin_addresses
from siltstone.server.bucket_identity import refuse_foreign
from siltstone.server.file_locks import refuse_lost_locks
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.network.certificates import EXPIRES_SOON_MS
from siltstone.server.network.listener_settings import PLAIN
from siltstone.server.network.sockets import refuse_taken
from siltstone.server.network.tls import server_tls
from siltstone.server.node_listeners import addresses_of, encrypted_listeners, refuse_unusable_keys
from siltstone.server.peers.listener import told_listener
from siltstone.server.settings.node import NodeSettings

BUCKET_ATTEMPTS = 2
BUCKET_MS_MAX = 10 * SECOND_MS
BUCKET_ANSWER_MS_MAX = 4 * SECOND_MS
"""A start repeats requests for half a minute and waits a minute for an answer, because a bucket may come back; a person
waits for this check."""


class StartOutcome(StrEnum):
    """What a check of a start has found."""

    OK = "ok"
    WARNING = "warning"
    """The node starts, and somebody should do something."""
    REFUSED = "refused"
    """The node would not start."""
    AWAY = "away"
    """A place does not answer: the node would not start before it does."""


class StartFinding(msgspec.Struct, frozen=True):
    """``what`` was looked at, and a text of one line about it, without secrets."""

    what: str
    outcome: StartOutcome
    text: str


class _Doubt(Exception):
    """Makes a finding a warning."""


def _found(what: str, check: Callable[[], str]) -> StartFinding:
    """Returns the finding of a check, which returns what is well and raises what is not."""
    try:
        return StartFinding(what, StartOutcome.OK, check())
    except _Doubt as doubt:
        return StartFinding(what, StartOutcome.WARNING, str(doubt))
    except (LogOutOfReach, StoreTransient) as trouble:
        return StartFinding(what, StartOutcome.AWAY, str(trouble))
    except (SiltstoneError, OSError) as trouble:
        return StartFinding(what, StartOutcome.REFUSED, str(trouble))


def start_findings(settings: NodeSettings, clock: Clock, rng: Random) -> Iterator[StartFinding]:
    """Yields the findings of a start with these settings, whose addresses are valid, but not of its ports. Blocks."""
    addresses = addresses_of(settings)
    yield StartFinding("settings", StartOutcome.OK, f"of the store at {settings.folder}")
    for address in addresses:
        yield _found(f"listener {address}", lambda address=address: _listener(address))  # type: ignore[misc]
    yield from _certificates(settings, addresses, clock)
    yield from _keys_of_tokens(settings, addresses, clock)
    yield from _secrets(settings)
    yield _found("write-ahead log", lambda: _log_folder(settings))
    yield from _store(settings, addresses, clock, rng)


async def port_findings(addresses: Sequence[ListenerAddress]) -> list[StartFinding]:
    """Returns whether each address can be bound now."""
    found = []
    for address in addresses:
        what = f"port {address.port}" if address.port else "a free port"
        try:
            await refuse_taken([address])
        except SiltstoneError as taken:
            found.append(StartFinding(what, StartOutcome.REFUSED, str(taken)))
        else:
            found.append(StartFinding(what, StartOutcome.OK, f"{address} can be opened"))
    return found


def ports_of(settings: NodeSettings) -> tuple[ListenerAddress, ...]:
    """Returns the addresses that a node binds, those of metrics and health included. Raises InvalidListener."""
    return (*addresses_of(settings), *parse_admin_addresses(settings.admin, settings.admin_listener))


# -- listeners -------------------------------------------------------------------------------------------------


def _listener(address: ListenerAddress) -> str:
    if address.misleads_others:
        raise _Doubt(
            f"it accepts other machines but tells them to connect to {address.advertised_host}, which is their own: "
            f"set advertised_listeners={address.name}://HOST:PORT"
        )
    return f"{address.protocol}, told to clients as {address.advertised_host}:{address.advertised_port}"


def _certificates(
    settings: NodeSettings, addresses: Sequence[ListenerAddress], clock: Clock
) -> Iterator[StartFinding]:
    maintenance = encrypted_admin(settings.admin.of_maintenance, settings.admin_listener)
    for name, listener in (encrypted_listeners(settings, addresses) | maintenance).items():

        def check(name: str = name, file: str = listener.tls_certificate_file) -> str:
            named = (
                settings.admin_listener if name == ADMIN_NAME else settings.named_listeners.get(name, PLAIN)
            )
            days = (
                server_tls(name, named, clock.now_ms()).certificate.not_after_ms - clock.now_ms()
            ) / DAY_MS
            words = f"{file} and its key are good for {days:.0f} days"
            if days * DAY_MS < EXPIRES_SOON_MS:
                raise _Doubt(f"{words}: renew the certificate")
            return words

        yield _found(f"certificate of listener {name}", check)


def _keys_of_tokens(
    settings: NodeSettings, addresses: Sequence[ListenerAddress], clock: Clock
) -> Iterator[StartFinding]:
    for address in addresses:
        bearer = settings.named_listeners.get(address.name, PLAIN).bearer
        if bearer is not None and address.protocol.wants_login:

            def check(name: str = address.name, bearer: BearerSettings = bearer) -> str:
                refuse_unusable_keys(name, bearer, clock)
                return f"{bearer.keys} is asked at the first login" if "://" in bearer.keys else bearer.keys

            yield _found(f"keys of tokens of listener {address.name}", check)


# -- secrets ---------------------------------------------------------------------------------------------------


def _secrets(settings: NodeSettings) -> Iterator[StartFinding]:
    """The secrets that no listener names; those of listeners are read with their certificates."""
    if file := settings.admin.metrics_token_file:

        def token() -> str:
            read_metrics_token(Path(file))
            return file

        yield _found("admin.metrics_token_file", token)
    for name, value in settings.tables.catalog.items():
        if name != WAREHOUSE and is_reference(value):

            def catalog(name: str = name, value: str = value) -> str:
                resolved(value, f"tables.catalog.{name}")
                return value

            yield _found(f"tables.catalog.{name}", catalog)
    if REGISTRY_AUTH_VARIABLE in os.environ or f"{REGISTRY_AUTH_VARIABLE}_FILE" in os.environ:

        def registry() -> str:
            secret_of_variables(os.environ, REGISTRY_AUTH_VARIABLE)
            return "can be read"

        yield _found(REGISTRY_AUTH_VARIABLE, registry)
    if os.environ.get(CONFIG_VARIABLE):

        def client() -> str:
            settings_of_process()
            return os.environ[CONFIG_VARIABLE]

        yield _found(CONFIG_VARIABLE, client)


# -- places ----------------------------------------------------------------------------------------------------


def _may_be_made(folder: Path) -> str:
    """Returns whether a folder is there or can be made. Raises PermissionError."""
    standing = next(each for each in (folder, *folder.parents) if each.exists())
    if not standing.is_dir():
        raise NotADirectoryError(f"{standing} is no folder")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise PermissionError(f"the user of this process may not write to {standing}")
    return "" if standing == folder else ", which the start makes"


def _log_folder(settings: NodeSettings) -> str:
    refuse_lost_locks(settings)
    if (bucket_id := settings.engine.wal.bucket_id) is not None:
        return f"in bucket {bucket_id}"
    return f"{settings.wal_folder}{_may_be_made(settings.wal_folder)}"


def _store(
    settings: NodeSettings, addresses: Sequence[ListenerAddress], clock: Clock, rng: Random
) -> Iterator[StartFinding]:
    """The findings of what the metadata and the buckets say."""
    with ExitStack() as opened:
        client: list[MetadataClient] = []

        def metadata() -> str:
            url = shown_url(settings.metadata)
            if not log_exists(settings.metadata):
                if not is_postgres_url(settings.metadata):
                    _may_be_made(sqlite_path_of(settings.metadata).parent)
                return f"{url} is not there yet: the start makes a new store"
            client.append(open_metadata(settings, clock, rng, create=False, untouched=True))
            opened.callback(client[0].close)
            _warn_of_readers(settings)
            return f"{url} is at version {client[0].image.version}"

        finding = _found("metadata", metadata)
        yield finding
        if finding.outcome in (StartOutcome.REFUSED, StartOutcome.AWAY):
            return
        image = client[0].image if client else MetadataImage()
        yield _found("authorization", lambda: _authorization(settings, addresses, image))
        yield _found("listener of the nodes", lambda: _listener_of_nodes(settings, addresses, image))
        yield from _buckets(settings, client[0] if client else None, image)


def _warn_of_readers(settings: NodeSettings) -> None:
    """Raises _Doubt when other users may read the metadata, with what the next start does about it."""
    if is_postgres_url(settings.metadata):
        return
    path = sqlite_path_of(settings.metadata)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~PRIVATE_FILE_MODE & 0o077:
        raise _Doubt(
            f"{path} has mode {mode:04o}, so other users may read it, and guess passwords: the start makes it "
            f"{PRIVATE_FILE_MODE:04o}"
        )


def _authorization(settings: NodeSettings, addresses: Sequence[ListenerAddress], image: MetadataImage) -> str:
    standing = image.authorization
    refuse_weaker_mode(settings.broker.authorization, standing)
    users = ", ".join(standing.super_users) or "none"
    if standing.mode is AuthorizationMode.OFF:
        return "off: every client that is let in may do everything"
    words = f"{standing.mode}, super users: {users}"
    if not standing.super_users:
        raise _Doubt(f"{words}: nobody can change rights (siltstone authorization --super-user User:NAME)")
    if open_ones := [
        each
        for each in addresses
        if not each.protocol.is_encrypted and not each.protocol.wants_login and not is_this_machine(each.host)
    ]:
        raise _Doubt(f"{words}; but {open_ones[0]} has neither TLS nor a login, and other machines reach it")
    return words


def _listener_of_nodes(
    settings: NodeSettings, addresses: Sequence[ListenerAddress], image: MetadataImage
) -> str:
    listeners = [
        Listener(each.name, each.advertised_host, each.advertised_port, each.protocol) for each in addresses
    ]
    told = told_listener(settings.engine.node_id, listeners, image)
    return f"{told.name} ({told.protocol})"


def _buckets(
    settings: NodeSettings, client: MetadataClient | None, image: MetadataImage
) -> Iterator[StartFinding]:
    quick = replace(
        settings.retry,
        attempts_max=BUCKET_ATTEMPTS,
        deadline_ms=BUCKET_MS_MAX,
        answer_ms_max=BUCKET_ANSWER_MS_MAX,
    )
    store_id = store_id_of(image)
    for bucket_id in sorted(settings.buckets.keys() - bucket_list_of(image).removed):
        alone = replace(settings, buckets={bucket_id: settings.buckets[bucket_id]}, retry=quick)

        def check(bucket_id: int = bucket_id, alone: NodeSettings = alone) -> str:
            url = alone.buckets[bucket_id]
            if (folder := missing_folder(url)) is not None and not image.next_object_id:
                return f"{folder}{_may_be_made(folder)}"
            with closing(open_buckets(alone, create=False)) as buckets:
                store = buckets.store(bucket_id)
                is_marked = refuse_foreign(store, store_id, bucket_id, image)
                if client is not None and store_id is not None:
                    guard_of(store, store_id, client).admit()
                if folder_of := _folder(store.url):
                    _may_be_made(folder_of)
                return f"{store.url} is this store's" if is_marked else f"{store.url} is free for this store"

        yield _found(f"bucket {bucket_id}", check)


def _folder(url: str) -> Path | None:
    return Path(url.removeprefix("file://")) if url.startswith("file:///") else None
