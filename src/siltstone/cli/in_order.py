"""A click group that lists its commands in the order in which they were added; click sorts them by name."""

from collections.abc import Mapping
from typing import Any

import click


class InOrder(click.Group):
    """``elsewhere``: what other tools call a command or an option → how it is written here."""

    def __init__(self, *args: Any, elsewhere: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._elsewhere = elsewhere or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            if unknown.option_name not in self._elsewhere:
                raise
            written = self._elsewhere[unknown.option_name]
            raise click.UsageError(
                f"No such option '{unknown.option_name}'. Write {written}.", ctx
            ) from unknown

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self._elsewhere:
            raise click.UsageError(f"No such command '{args[0]}'. Write {self._elsewhere[args[0]]}.", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
