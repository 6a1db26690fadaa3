"""Commands that delete: the question before they delete for good, and the report afterwards."""

import sys
from collections.abc import Mapping, Sequence

import click

from siltstone.cli.failures import Failure
from siltstone.cli.output import print_json, remarks, results
from siltstone.model.errors import InvalidRequest


class NobodyToAsk(InvalidRequest):
    """A command must ask for confirmation, and stdin is not a terminal."""


def confirm(question: str, *, is_answered: bool) -> None:
    """Returns after a yes, or at once if ``is_answered`` (--yes was given). Raises NobodyToAsk, and Failure after a
    no."""
    if is_answered:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise NobodyToAsk(f"{question} Not a terminal, so I cannot ask: add --yes to confirm")
    if not click.confirm(question, err=True):
        remarks().print("Nothing was done.")
        raise Failure


yes_option = click.option("--yes", "is_answered", is_flag=True, help="Do not ask for confirmation.")


def tell_deleted(names: Sequence[str], refused: Mapping[str, str], as_json: bool) -> None:
    """Prints which of ``names`` were deleted, and why others were ``refused`` (name → reason). Raises Failure if any
    was refused."""
    deleted = [name for name in names if name not in refused]
    if as_json:
        print_json({"deleted": deleted, "refused": refused})
    elif deleted:
        results().print(f"Deleted {', '.join(deleted)}.", markup=False, soft_wrap=True)
    for why in refused.values():
        remarks().print(f"not deleted: {why}", markup=False, soft_wrap=True)
    if refused:
        raise Failure
