"""``siltstone users``: lists the users of a store; adds and removes them, changes a password, ends sessions.

The commands work on the store's metadata, so the first user needs no broker. Brokers that run know a change after a
fifth of a second.
"""

from collections.abc import Sequence

import click
import msgspec

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, result, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.users.password import password_options, read_password
from siltstone.cli.words import cell
from siltstone.metadata.credentials import credentials_of
from siltstone.metadata.decisions.users import check_existence, check_name
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.users import AlterUsers, EndSessions
from siltstone.model.access import Principal, ScramMechanism
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.randomness import system_randomness

user_argument = click.argument("user", metavar="USER")


class UserNotFit(InvalidRequest):
    """The user that the command names exists already, or does not exist, or may not have that name."""


class UserRow(msgspec.Struct, frozen=True):
    """``mechanisms``: name of the mechanism → rounds."""

    user: str
    mechanisms: dict[str, int]


def user_rows(image: ImageView) -> list[UserRow]:
    return [
        UserRow(name, {each.mechanism.written: each.rounds for each in image.users[name].credentials})
        for name in sorted(image.users)
    ]


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def users(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the users of a store; add or remove one, change a password, or end sessions.

    Users log in at listeners of the protocols SASL_SSL and SASL_PLAINTEXT. The store keeps no password: only what SCRAM
    makes of it, with which nobody can log in.
    """
    if context.invoked_subcommand is None:
        list_users(choice, as_json)


@users.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the users of a store, as siltstone users does."""
    list_users(choice, as_json)


def _check_user(image: ImageView, user: str, *, must_exist: bool) -> None:
    """Raises UserNotFit."""
    try:
        check_name(user)
        check_existence(image, user, must_exist=must_exist)
    except Refusal as refusal:
        raise UserNotFit(str(refusal)) from refusal


def list_users(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        rows = user_rows(store.metadata.image)
    if as_json:
        print_json({"users": rows})
    elif not rows:
        results().print("There are no users; siltstone users add makes one.")
    else:
        shown = table("user", "mechanism (rounds)")
        for row in rows:
            words = ", ".join(f"{name} ({rounds})" for name, rounds in row.mechanisms.items())
            shown.add_row(cell(row.user), words)
        results().print(shown)


@users.command()
@user_argument
@password_options
@store_options
def add(
    choice: StoreChoice, user: str, password_file: str | None, mechanisms: Sequence[str], rounds: int
) -> None:
    """Add a user, whose password is asked for at the terminal.

    It can log in at once, on every broker of the store.
    """
    _set_password(choice, user, password_file, mechanisms, rounds, must_exist=False)
    result(f"User {user} was added.")


@users.command()
@user_argument
@password_options
@click.option("--end-sessions", is_flag=True, help="End the sessions that began with the old password.")
@store_options
def password(
    choice: StoreChoice,
    user: str,
    password_file: str | None,
    mechanisms: Sequence[str],
    rounds: int,
    end_sessions: bool,
) -> None:
    """Change the password of a user.

    New logins need the new one at once. Clients that are logged in stay so until their sessions end.
    """
    _set_password(
        choice, user, password_file, mechanisms, rounds, must_exist=True, ends_sessions=end_sessions
    )
    result(f"The password of user {user} was changed.")


def _set_password(
    choice: StoreChoice,
    user: str,
    password_file: str | None,
    mechanisms: Sequence[str],
    rounds: int,
    *,
    must_exist: bool,
    ends_sessions: bool = False,
) -> None:
    """Credentials for mechanisms that are not named keep no old password: they are removed."""
    wanted = [each for each in ScramMechanism if not mechanisms or each.written in mechanisms]
    with choice.open() as store:
        image = store.metadata.image
        _check_user(image, user, must_exist=must_exist)
        made = credentials_of(read_password(user, password_file), wanted, rounds, system_randomness())
        known = image.users.get(user)
        left = () if known is None else tuple(each.mechanism for each in known.credentials)
        store.metadata.execute(
            AlterUsers(
                removals=tuple((user, each) for each in left if each not in wanted),
                credentials=tuple((user, each) for each in made),
                must_exist=must_exist,
            )
        )
        if ends_sessions:
            store.metadata.execute(EndSessions(str(Principal(user))))


@users.command()
@user_argument
@yes_option
@store_options
def remove(choice: StoreChoice, user: str, is_answered: bool) -> None:
    """Remove a user.

    Its sessions end within a second, on every broker of the store.
    """
    with choice.open() as store:
        image = store.metadata.image
        _check_user(image, user, must_exist=True)
        confirm(f"Remove user {user} and end its sessions?", is_answered=is_answered)
        removals = tuple((user, each.mechanism) for each in image.users[user].credentials)
        store.metadata.execute(AlterUsers(removals, must_exist=True))
    result(f"User {user} was removed.")


@users.command("end-sessions")
@click.argument("principal", metavar="USER")
@store_options
def end_sessions(choice: StoreChoice, principal: str) -> None:
    """End the sessions of a user, or of the owner of a certificate.

    Clients log in again at once, if they still can. For the owner of a certificate write the whole name, such as
    User:CN=svc-1,O=Acme.
    """
    named = principal if principal.startswith("User:") else str(Principal(principal))
    with choice.open() as store:
        store.metadata.execute(EndSessions(named))
    result(f"The sessions of {named} end now.")
