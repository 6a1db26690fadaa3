"""``siltstone``: all commands, and the one place where a failure becomes a line and an exit status."""

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from siltstone import __version__
from siltstone.cli.check import check
from siltstone.cli.compact import compact
from siltstone.cli.demo.command import demo
from siltstone.cli.failures import debugging, exit_status, failure_line
from siltstone.cli.groups.command import groups
from siltstone.cli.inspect_object import inspect
from siltstone.cli.maintain import maintain
from siltstone.cli.produce.command import produce
from siltstone.cli.serve import serve
from siltstone.cli.streams import streams
from siltstone.cli.tail.command import tail
from siltstone.cli.topics.command import topics


class Commands(click.Group):
    """A group that ends with an exit status and at most one line on stderr, whatever happens inside."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            status = super().main(args, **extra)
        except Exception as failure:
            if debugging():
                raise
            if line := failure_line(failure):
                print(f"siltstone: {line}", file=sys.stderr)  # noqa: T201
            sys.exit(exit_status(failure))
        sys.exit(status if isinstance(status, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order one meets them."""
        return list(self.commands)


@click.group(cls=Commands, no_args_is_help=False, invoke_without_command=True)
@click.version_option(__version__, prog_name="siltstone", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Siltstone, a stream store whose data lives on object storage and whose maintenance runs on Apache Spark.

    \b
    Begin with:   siltstone demo --store ./siltstone-data
    then look at: siltstone streams, siltstone inspect 35, siltstone check
    A broker:     siltstone serve; then siltstone topics, produce, tail, groups

    A store is a folder (--store, or SILTSTONE_STORE); its parts may be elsewhere, such as the objects in S3 (--bucket).
    Settings come from FOLDER/siltstone.toml, from SILTSTONE_... variables and from --set, the later winning. A broker is
    an address (--bootstrap, or SILTSTONE_BOOTSTRAP), ours or any other of Kafka's kind.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (demo, serve, topics, groups, produce, tail, streams, inspect, compact, maintain, check):
    cli.add_command(command)


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
