"""``siltstone quotas``: lists the quotas of a store, sets and removes some, and says which count for a client.

The commands work on the store's metadata, so they need no broker and no right. Brokers that run know a change after a
fifth of a second.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from siltstone.broker.quotas.precedence import limit_of_address, winning_limit
from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, remarks, result, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell
from siltstone.metadata.decisions.quotas import check_change
from siltstone.metadata.image import ImageView
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.metadata.refusals import QuotaNotAllowed
from siltstone.model.errors import InvalidRequest
from siltstone.model.quotas import QuotaEntity, QuotaKey, entity_key, entity_of, shown_entity

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = ("user", "client-id", "ip")


class QuotaUnfit(InvalidRequest):
    """The command line describes a quota that no store may have."""


class QuotaRow(msgspec.Struct, frozen=True):
    """``entity``: type → name, None for the default; ``limits``: key → value, for each node."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class CountingRow(msgspec.Struct, frozen=True):
    """The limit that counts for a client. ``shared_by``: the user, the client id, or both, whose clients share it."""

    key: str
    limit: float
    shared_by: str


def entity_options(command: F) -> F:
    """Adds --user, --client-id, --ip and --default; the command receives ``entity``."""
    options = (
        click.option("--user", metavar="NAME", help="The user, such as ada or CN=svc-1,O=Acme."),
        click.option("--client-id", metavar="NAME", help="The client id."),
        click.option("--ip", metavar="ADDRESS", help="The address of clients."),
        click.option(
            "--default", "defaults", multiple=True, type=click.Choice(DEFAULT), metavar="TYPE",
            help="Every user, client-id or ip without a quota of its own; repeatable.",
        ),
    )  # fmt: skip

    def with_entity(
        *, user: str | None, client_id: str | None, ip: str | None, defaults: Sequence[str], **others: Any
    ) -> Any:
        named = {"user": user, "client_id": client_id, "ip": ip}
        return command(entity=_entity(named, [each.replace("-", "_") for each in defaults]), **others)

    with_entity.__name__ = command.__name__
    with_entity.__doc__ = command.__doc__
    with_entity.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(options):
        option(with_entity)
    return with_entity  # type: ignore[return-value]


def _entity(named: dict[str, str | None], defaults: Sequence[str]) -> QuotaEntity:
    """Raises QuotaUnfit."""
    given: dict[str, str | None] = {kind: name for kind, name in named.items() if name is not None}
    if twice := given.keys() & set(defaults):
        raise QuotaUnfit(
            f"--{min(twice).replace('_', '-')} and its default are two quotas: write one of them"
        )
    if "" in given.values():
        raise QuotaUnfit("a name is empty: write --default TYPE for the default")
    entity = entity_of(**given, **dict.fromkeys(defaults))
    if not entity:
        raise QuotaUnfit("nobody is named: write --user, --client-id, both, --ip, or --default TYPE")
    return entity


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def quotas(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the quotas of a store; set or remove some, or ask which count for a client.

    A quota limits what a user, a client id or an address uses on each node.
    """
    if context.invoked_subcommand is None:
        list_quotas(choice, as_json)


@quotas.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the quotas of a store, as siltstone quotas does."""
    list_quotas(choice, as_json)


def list_quotas(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        image = store.metadata.image
        rows = [
            QuotaRow({str(kind): name for kind, name in each.entity}, dict(each.limits))
            for each in (image.quotas[key] for key in sorted(image.quotas))
        ]
        entities = [image.quotas[key].entity for key in sorted(image.quotas)]
        nodes = _live_nodes(image)
    if as_json:
        print_json({"quotas": rows, "live_nodes": nodes})
        return
    if not rows:
        results().print("There are no quotas; siltstone quotas set makes one.")
        return
    shown = table("", "limit", "value")
    for entity, row in zip(entities, rows, strict=True):
        for key, value in row.limits.items():
            shown.add_row(cell(shown_entity(entity)), key, written(value))
    results().print(shown)
    if nodes > 1:
        remarks().print(
            f"Each of the {nodes} live nodes allows this much, so all together × {nodes}; controller_mutation_rate is "
            "divided among them."
        )


def _live_nodes(image: ImageView) -> int:
    return sum(node.is_live for node in image.nodes.values())


def written(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


@quotas.command("set")
@click.argument("limits", metavar="KEY=VALUE...", nargs=-1, required=True)
@entity_options
@store_options
def set_(choice: StoreChoice, entity: QuotaEntity, limits: Sequence[str]) -> None:
    """Set limits of a user, a client id, both together, or an address.

    KEY is producer_byte_rate or consumer_byte_rate (bytes a second), request_percentage (100 is the whole event loop),
    controller_mutation_rate (partitions created or deleted a second), or, of an address, connection_creation_rate.
    """
    change = QuotaChange(entity, tuple(map(_limit_of, limits)))
    _check(change)
    with choice.open() as store:
        store.metadata.execute(AlterQuotas((change,)))
    result(f"{shown_entity(entity)}: {_count(len(limits))} set.")


def _limit_of(text: str) -> tuple[QuotaKey, float | None]:
    """Raises QuotaUnfit."""
    key, _, value = text.partition("=")
    try:
        return _key_of(key), float(value.replace("_", ""))
    except ValueError:
        raise QuotaUnfit(
            f"{text!r} is no limit: write KEY=NUMBER, such as producer_byte_rate=1000000"
        ) from None


def _key_of(text: str) -> QuotaKey:
    """Raises QuotaUnfit."""
    if text not in QuotaKey.__members__.values():
        raise QuotaUnfit(f"{text!r} is no quota: known are {', '.join(QuotaKey)}")
    return QuotaKey(text)


def _check(change: QuotaChange) -> None:
    """Raises QuotaUnfit."""
    try:
        check_change(change)
    except QuotaNotAllowed as refusal:
        raise QuotaUnfit(str(refusal)) from refusal


def _count(number: int) -> str:
    return "1 limit was" if number == 1 else f"{number} limits were"


@quotas.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@entity_options
@yes_option
@store_options
def remove(choice: StoreChoice, entity: QuotaEntity, keys: Sequence[str], is_answered: bool) -> None:
    """Remove limits of a user, a client id, both together, or an address: those named, or all."""
    named = [_key_of(each) for each in dict.fromkeys(keys)]
    with choice.open() as store:
        standing = store.metadata.image.quotas.get(entity_key(entity))
        limits = () if standing is None else standing.limits
        gone = tuple((key, None) for key, _ in limits if not named or key in named)
        if not gone:
            result(f"Nothing was removed: {shown_entity(entity)} has no such limit.")
            return
        words = ", ".join(key for key, _ in gone)
        confirm(f"Remove {words} of {shown_entity(entity)}?", is_answered=is_answered)
        store.metadata.execute(AlterQuotas((QuotaChange(entity, gone),)))
    result(f"{shown_entity(entity)}: {_count(len(gone))} removed.")


@quotas.command("of")
@click.argument("user", metavar="USER")
@click.option("--client-id", metavar="NAME", default="", help="With this client id.")
@click.option("--ip", metavar="ADDRESS", default="", help="From this address.")
@json_option
@store_options
def of_client(choice: StoreChoice, user: str, client_id: str, ip: str, as_json: bool) -> None:
    """Say which limits count for a client, and with whom it shares each.

    USER is ANONYMOUS for a client without a login and without a certificate.
    """
    with choice.open() as store:
        rows = counting_rows(store.metadata.image, user, client_id, ip)
    if as_json:
        print_json({"quotas": rows})
        return
    if not rows:
        results().print("No quota counts for this client.")
        return
    shown = table("limit", "value", "shared by all clients of")
    for row in rows:
        shown.add_row(row.key, written(row.limit), cell(row.shared_by))
    results().print(shown)


def counting_rows(image: ImageView, user: str, client_id: str, ip: str) -> list[CountingRow]:
    rows: list[CountingRow] = []
    for key in QuotaKey:
        if key.is_of_addresses:
            limit = limit_of_address(image.quotas, ip) if ip else None
            if limit is not None:
                rows.append(CountingRow(key, limit, f"ip {ip}"))
            continue
        won = winning_limit(image.quotas, key, user, client_id)
        if won is not None:
            shared = entity_of(user=won.user or "", client_id=won.client_id or "")
            rows.append(CountingRow(key, won.limit, shown_entity(shared)))
    return rows
