"""``siltstone``: all commands, and the one place where a failure becomes a line and an exit status."""

import gc
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from siltstone import __version__
from siltstone.cli.failures import FAILED, debugging, exit_status, failure_line
from siltstone.cli.output import abandon

COMMANDS: Mapping[str, str] = {
    "demo": "siltstone.cli.demo.command",
    "serve": "siltstone.cli.serve",
    "topics": "siltstone.cli.topics.command",
    "groups": "siltstone.cli.groups.command",
    "produce": "siltstone.cli.produce.command",
    "tail": "siltstone.cli.tail.command",
    "table": "siltstone.cli.table.command",
    "streams": "siltstone.cli.streams",
    "inspect": "siltstone.cli.inspect_object",
    "compact": "siltstone.cli.compact",
    "maintain": "siltstone.cli.maintain.command",
    "check": "siltstone.cli.check",
}
"""In the order one meets them, with the module that has each under its own name. A module is loaded when its command is
asked for: with a server and a planner in tow, ``tail`` would take half a second longer to begin."""


class Commands(click.Group):
    """A group that ends with an exit status and at most one line on stderr, whatever happens inside."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            status = super().main(args, **extra)
        except BrokenPipeError:  # as with ``| head``: whoever read our results has enough
            abandon(sys.stdout)
            sys.exit(FAILED)
        except Exception as failure:
            if debugging():
                raise
            if line := failure_line(failure):
                print(f"siltstone: {line}", file=sys.stderr)  # noqa: T201
            sys.exit(exit_status(failure))
        sys.exit(status if isinstance(status, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        gc.enable()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click looks for what was meant among the commands it has loaded: here that is none."""
        if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{near[0]}'?", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, no_args_is_help=False, invoke_without_command=True)
@click.version_option(__version__, prog_name="siltstone", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Siltstone, a Kafka broker whose data lives on object storage and whose maintenance runs on Apache Spark.

    \b
    A broker:     siltstone serve; elsewhere siltstone topics, produce, tail, groups
    A tour:       siltstone demo --store ./siltstone-data
    What it left: siltstone streams, siltstone inspect 35, siltstone check

    A store is a folder (--store, or SILTSTONE_STORE); its parts may be elsewhere, such as the objects in S3 (--bucket).
    Settings come from FOLDER/siltstone.toml, from SILTSTONE_... variables and from --set, the later winning.

    A broker is an address (--bootstrap, or SILTSTONE_BOOTSTRAP): ours, or any other that speaks as Kafka does.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """The program ``siltstone``."""
    if debugging():
        logging.basicConfig(level=logging.INFO)
    else:
        keep_quiet()
    cli.main(prog_name="siltstone")


def keep_quiet() -> None:
    """A failure is reported once, by its line; what components write down on the way is for debugging. It is the root
    logger because py4j writes there what happens to it at Ctrl-C, when Python also warns of coroutines never begun."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    # An event loop that was interrupted while it was being made complains when it goes.
    sys.unraisablehook = lambda _: None
