"""``siltstone clients``: shows which clients are connected to brokers, as their admin listeners tell."""

import base64
import http.client
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import RenderableType

from siltstone.cli.cluster_options import client_config_option
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.store_options import json_option
from siltstone.cli.words import cell, count_words, seconds_words
from siltstone.foundation.credentials import is_this_machine
from siltstone.kafka_client.client_settings import PLAIN, ClientSettings, settings_of_file
from siltstone.kafka_client.tls import client_context
from siltstone.model.access import ANONYMOUS
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.runtime.clock import SystemClock
from siltstone.server.admin.endpoints import ClientsReport
from siltstone.server.network.statistics import ClientConnection

DEFAULT_ADMIN = "127.0.0.1:9644"
WITH_TLS = "https://"
TIME_LIMIT_SECONDS = 10
"""A broker answers in milliseconds; a person waits no longer for one that hangs."""


class AdminNotThere(Unavailable):
    """No admin listener answers at the address."""


class AdminRefused(InvalidRequest):
    """What answers at the address is no admin listener of a broker, or it refuses the request."""


@click.command()
@click.option(
    "-a",
    "--admin",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    envvar="SILTSTONE_ADMIN",
    default=(DEFAULT_ADMIN,),
    help="Admin listener of a broker, https://HOST:PORT if it has TLS; repeat it for each one [SILTSTONE_ADMIN; "
    f"{DEFAULT_ADMIN}].",
)
@client_config_option()
@json_option  # fmt: skip
def clients(addresses: Sequence[str], client_config: Path | None, as_json: bool) -> None:
    """List the clients that are connected to brokers.

    Each connection with the client's id, its software and version as it names them, its address, how long it has been
    open, and the name of its user or certificate. A client has a connection to each broker that it needs, and perhaps
    several. The brokers need admin listeners (--set admin.listeners=127.0.0.1:9644); where these have a login,
    --client-config names the user. At most the newest 1,000 connections of each broker are listed.
    """
    settings = PLAIN if client_config is None else settings_of_file(client_config)
    reports = [_report_of(address, settings) for address in addresses]
    if as_json:
        print_json({"brokers": reports})
        return
    for report in reports:
        if left_out := report.connections - len(report.clients):
            remarks().print(f"Node {report.node_id} has {count_words(left_out)} older connections.")
    if any(report.clients for report in reports):
        results().print(_table(reports, SystemClock().now_ms()))
    else:
        results().print("No client is connected.")


def _report_of(address: str, settings: ClientSettings) -> ClientsReport:
    """Raises AdminNotThere, AdminRefused, InvalidClientConfig."""
    connection = _connection(address, settings)
    try:
        connection.request(
            "GET", "/clients", headers={"Accept": "application/json", **_login(address, settings)}
        )
        answer = connection.getresponse()
        body = answer.read()
        if answer.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise AdminRefused(
                f"{address} refuses ({body.decode(errors='replace').strip()}): give sasl.username and sasl.password of "
                "a user who may describe the cluster (--client-config)"
            )
        if answer.status != http.client.OK:
            raise AdminRefused(
                f"{address} lists no clients ({answer.status} {body.decode(errors='replace').strip()}): give the admin "
                "listener of a broker"
            )
        return msgspec.json.decode(body, type=ClientsReport)
    except (http.client.InvalidURL, msgspec.MsgspecError, http.client.HTTPException) as trouble:
        raise AdminRefused(
            f"{address} is no admin listener of a broker ({trouble}): write HOST:PORT, such as {DEFAULT_ADMIN}"
        ) from trouble
    except OSError as trouble:
        raise AdminNotThere(
            f"no admin listener answers at {address} ({trouble.strerror or trouble}): start the broker with --set "
            f"admin.listeners={DEFAULT_ADMIN}, or give another address (--admin)"
        ) from trouble
    finally:
        connection.close()


def _login(address: str, settings: ClientSettings) -> dict[str, str]:
    """Returns the header of a login, if the settings have a user. Raises AdminRefused."""
    if not settings.username:
        return {}
    if not address.startswith(WITH_TLS) and not is_this_machine(address.rpartition(":")[0].strip("[]")):
        raise AdminRefused(f"{address} would get the password in clear: write https://HOST:PORT")
    said = f"{settings.username}:{settings.password.revealed()}".encode()
    return {"Authorization": f"Basic {base64.b64encode(said).decode()}"}


def _connection(address: str, settings: ClientSettings) -> http.client.HTTPConnection:
    if not address.startswith(WITH_TLS):
        return http.client.HTTPConnection(address, timeout=TIME_LIMIT_SECONDS)
    context, host = client_context(settings), address.removeprefix(WITH_TLS)
    return http.client.HTTPSConnection(host, timeout=TIME_LIMIT_SECONDS, context=context)


def _table(reports: Sequence[ClientsReport], now_ms: int) -> RenderableType:
    """The column of principals is there when a certificate names somebody."""
    has_names = any(each.principal != str(ANONYMOUS) for report in reports for each in report.clients)
    names = ["principal"] if has_names else []
    shown = table(">node", "client", "software", "address", "listener", ">open for", *names)
    for report in reports:
        for each in report.clients:
            shown.add_row(
                str(report.node_id),
                cell(each.client_id or "-"),
                cell(f"{each.software} {each.software_version}".strip() or "-"),
                cell(f"{each.host}:{each.port}"),
                cell(each.listener),
                _age(each, now_ms),
                *([cell(each.principal)] if has_names else []),
            )
    return shown


def _age(client: ClientConnection, now_ms: int) -> str:
    return seconds_words(max(0, now_ms - client.connected_ms) / 1000)
