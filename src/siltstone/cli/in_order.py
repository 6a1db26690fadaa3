"""A group of commands that lists them as they were added: in the order one meets them."""

import click


class InOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
