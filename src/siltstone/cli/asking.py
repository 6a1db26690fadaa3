"""Asking before something is lost for good."""

import sys

import click

from siltstone.cli.failures import Failure
from siltstone.cli.output import remarks
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
