"""``siltstone authorization``: shows whether a store looks at rights, switches that on or off, and names super users.

The mode is part of the store, not of a node's settings, so all nodes change together. A node can have a floor below
which it does not start: the setting ``broker.authorization``.
"""

from collections.abc import Sequence

import click
import msgspec

from siltstone.cli.acls.options import principal_of
from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.metadata.acls import SetAuthorization
from siltstone.metadata.refusals import AclNotAllowed, NoSuperUser
from siltstone.model.acls import Authorization, AuthorizationMode
from siltstone.model.errors import InvalidRequest

MEANINGS = {
    AuthorizationMode.OFF: "every client may do everything",
    AuthorizationMode.REPORT: "every client may do everything, and what on would refuse is logged and counted",
    AuthorizationMode.ON: "clients may do what ACLs allow them",
}


class AuthorizationNotSet(InvalidRequest):
    """The mode or the super users that the command line asks for are not allowed."""


@click.command()
@click.argument(
    "mode", metavar="[MODE]", required=False, type=click.Choice([each.value for each in AuthorizationMode])
)
@click.option("--super-user", "added", metavar="NAME", multiple=True, help="Add a super user; repeatable.")
@click.option(
    "--remove-super-user", "removed", metavar="NAME", multiple=True, help="Remove a super user; repeatable."
)
@json_option
@store_options
def authorization(
    choice: StoreChoice, mode: str | None, added: Sequence[str], removed: Sequence[str], as_json: bool
) -> None:
    """Show or set whether a store looks at the rights of clients: off, report or on; and name super users.

    Super users may do everything, whatever the ACLs say. on needs at least one.
    """
    command = SetAuthorization(
        None if mode is None else AuthorizationMode(mode),
        tuple(map(principal_of, added)),
        tuple(map(principal_of, removed)),
    )
    with choice.open() as store:
        standing = store.metadata.image.authorization
        if command != SetAuthorization():
            try:
                standing = store.metadata.execute(command)
            except (NoSuperUser, AclNotAllowed) as refusal:
                raise AuthorizationNotSet(str(refusal)) from refusal
    _show(standing, as_json)


def _show(standing: Authorization, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "authorization": msgspec.to_builtins(
                    {"mode": standing.mode, "super_users": standing.super_users}
                )
            }
        )
        return
    results().print(f"Authorization is {standing.mode}: {MEANINGS[standing.mode]}.", soft_wrap=True)
    names = ", ".join(standing.super_users) or "none"
    results().print(f"Super users: {names}", markup=False, soft_wrap=True)
