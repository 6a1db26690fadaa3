"""Asking before something is lost for good.

What became of things that were to be deleted, for people and for scripts.
"""

import sys
from collections.abc import Mapping, Sequence

import click

from siltstone.cli.failures import Failure
from siltstone.cli.output import print_json, remarks, results
from siltstone.model.errors import InvalidRequest


class NobodyToAsk(InvalidRequest):
    """A question has to be answered, and stdin is no terminal."""


def confirm(question: str, *, is_answered: bool) -> None:
    """Returns for a yes. ``is_answered``: --yes was given. Raises NobodyToAsk, Failure."""
    if is_answered:
        return
    if not sys.stdin.isatty():
        raise NobodyToAsk(f"{question} Nobody can be asked here: say so with --yes")
    if not click.confirm(question, err=True):
        remarks().print("Nothing was done.")
        raise Failure


yes_option = click.option("--yes", "is_answered", is_flag=True, help="Do not ask first.")


def tell_deleted(names: Sequence[str], refused: Mapping[str, str], as_json: bool) -> None:
    """``refused``: name → why. Raises Failure if there is any."""
    deleted = [name for name in names if name not in refused]
    if as_json:
        print_json({"deleted": deleted, "refused": refused})
    elif deleted:
        results().print(f"Deleted {', '.join(deleted)}.", markup=False, soft_wrap=True)
    for why in refused.values():
        remarks().print(f"not deleted: {why}", markup=False, soft_wrap=True)
    if refused:
        raise Failure
