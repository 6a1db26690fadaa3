"""``siltstone maintain unpin TOKEN|all``: ends scan pins."""

import click

from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.cli.words import counted
from siltstone.metadata.commands import UnpinScan
from siltstone.model.errors import InvalidRequest

ALL = "all"


class PinNotThere(InvalidRequest):
    """There is no pin with the token: it never existed, or it was ended."""


@click.command()
@click.argument("token", metavar="TOKEN|all")
@store_options
def unpin(choice: StoreChoice, token: str) -> None:
    """End a scan pin, or all of them.

    A scan pins the objects of its plan, so that they are not deleted while it reads them. siltstone maintain explain
    --kind sweep shows each pin, what it holds, and for whom. A scan whose pin was ended may fail with ScanOutdated; it
    is then to be planned again. The next sweep deletes what no other pin holds.
    """
    with choice.open() as store:
        tokens = sorted(store.metadata.image.pins) if token == ALL else [token]
        ended = sum(each is True for each in store.metadata.execute_all([UnpinScan(each) for each in tokens]))
    if not ended and token != ALL:
        raise PinNotThere(f"there is no pin {token}; siltstone maintain explain --kind sweep lists all pins")
    results().print(f"{counted(ended, 'scan pin')} ended.", markup=False, soft_wrap=True)
