"""A click group that lists its commands in the order in which they were added; click sorts them by name."""

import click


class InOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
