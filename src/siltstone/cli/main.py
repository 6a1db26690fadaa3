"""``siltstone``: the list of all commands, and the one place where an exception becomes a line and an exit status."""

import gc
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from siltstone import __version__
from siltstone.cli.failures import FAILED, debugging, exit_status, failure_line
from siltstone.cli.logs import json_line, logs_json
from siltstone.cli.output import abandon
from siltstone.cli.standard_streams import STDOUT_NAME, OutputClosed, prepare_streams

COMMANDS: Mapping[str, str] = {
    "demo": "siltstone.cli.demo.command",
    "serve": "siltstone.cli.serve.command",
    "topics": "siltstone.cli.topics.command",
    "groups": "siltstone.cli.groups.command",
    "transactions": "siltstone.cli.transactions.command",
    "produce": "siltstone.cli.produce.command",
    "tail": "siltstone.cli.tail.command",
    "consume": "siltstone.cli.consume.command",
    "table": "siltstone.cli.table.command",
    "sql": "siltstone.cli.sql",
    "console": "siltstone.cli.console",
    "tables": "siltstone.cli.tables.command",
    "nodes": "siltstone.cli.nodes.command",
    "users": "siltstone.cli.users.command",
    "clients": "siltstone.cli.clients",
    "authorization": "siltstone.cli.authorization",
    "acls": "siltstone.cli.acls.command",
    "quotas": "siltstone.cli.quotas.command",
    "balance": "siltstone.cli.balance.command",
    "buckets": "siltstone.cli.buckets.command",
    "streams": "siltstone.cli.streams",
    "cost": "siltstone.cli.cost",
    "inspect": "siltstone.cli.inspect_object",
    "compact": "siltstone.cli.compact",
    "maintain": "siltstone.cli.maintain.command",
    "erase": "siltstone.cli.erase.command",
    "erasures": "siltstone.cli.erase.erasures",
    "sinks": "siltstone.cli.sinks",
    "status": "siltstone.cli.levels.status",
    "upgrade": "siltstone.cli.levels.upgrade",
    "check": "siltstone.cli.check",
    "metadata": "siltstone.cli.metadata.command",
    "backup": "siltstone.cli.backup",
    "restore": "siltstone.cli.restore",
    "completion": "siltstone.cli.completion",
}
"""Command → the module that defines it under the same name, in the order of ``siltstone --help``. A module is loaded
only when its command is typed: loading the server and the planners as well would delay ``tail`` by half a second."""


SUMMARIES: Mapping[str, str] = {
    "demo": "Take a tour: a broker, a year of flights, and their maintenance.",
    "serve": "Run a Kafka broker on a store, which is created if missing.",
    "topics": "List the topics of a broker; create, change or delete them.",
    "groups": "List consumer groups and their lag; show, reset or delete them.",
    "transactions": "List transactional ids and what they do; show or abort a transaction, or find one that hangs.",
    "produce": "Send the lines of FILE, or of stdin, as records.",
    "tail": "Show the last records of a topic, and new ones as they arrive.",
    "consume": "Show records of a topic as a member of a consumer group, and commit what was shown.",
    "table": "Show a topic as a table: the newest value of each key.",
    "sql": "Query topics and the metadata with SQL, in this process, by DuckDB.",
    "console": "Show a store as pages in a browser.",
    "tables": "List the topics that are kept as tables; show, explain, replay or forget a table.",
    "nodes": "List the nodes of a store; drain, resume or unregister one, or give up the log of a lost one.",
    "users": "List the users of a store; add or remove one, change a password, or end sessions.",
    "clients": "List the clients that are connected to brokers.",
    "authorization": "Show or set whether a store looks at the rights of clients: off, report or on; and name super"
    " users.",
    "acls": "List the ACLs of a store; add or remove some, or ask who may do something.",
    "quotas": "List the quotas of a store; set or remove some, or ask which count for a client.",
    "balance": "Even out the load of the brokers.",
    "buckets": "List the buckets of a store, add, drain or remove one, and choose how new objects are spread over"
    " them.",
    "streams": "List the streams of a store.",
    "cost": "Estimate what a store costs a month, by topic.",
    "inspect": "Show what an object holds: header, index, and its batches.",
    "maintain": "Maintain a store: retention, garbage collection, compaction.",
    "erase": "Remove all records of some keys from a topic, with a report of where they were.",
    "erasures": "List the erasures of a store; resume, report or forget one.",
    "sinks": "List the sinks of a store; give an unfinished batch up, or forget a sink.",
    "status": "Show the level of a store, what each of its nodes runs, and until when one can go back to which"
    " version.",
    "upgrade": "Raise the level of a store, so that new formats may be written.",
    "check": "Verify a store: compare its metadata with its objects.",
    "metadata": "Move the metadata of a store to another database.",
    "backup": "Back up a store into the new folder TO, while brokers run.",
    "restore": "Make a new store from the backup in the folder FROM.",
    "completion": "Print the script that makes a shell complete commands, options, and names of topics and groups.",
}
"""Command that is not hidden → the first sentence of its help. They stand here, because ``siltstone --help`` would load
all commands for them, the server, the planners and NumPy too: a second of a processor for the first thing that
everybody types."""


ELSEWHERE: Mapping[str, str] = {
    "version": "siltstone --version",
    "help": "siltstone --help",
    "topic": "siltstone topics",
    "group": "siltstone groups",
    "start": "siltstone serve",
    "user": "siltstone users",
}
"""What other tools call a command → how it is written here."""


AGAIN_SECONDS = 0.1
"""Until an interruption that was lost is repeated."""


class Commands(click.Group):
    """The group of all commands. ``main`` always ends with an exit status and prints at most one line on stderr."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            status = super().main(args, **extra)
            sys.stdout.flush()  # a full disk is noticed here, not while the interpreter exits
        except BrokenPipeError:  # the reader of stdout, such as ``head``, has closed the pipe
            abandon(sys.stdout)
            sys.exit(FAILED)
        except Exception as failure:
            if isinstance(failure, OSError) and failure.filename == STDOUT_NAME:
                abandon(sys.stdout)
            if debugging():
                raise
            end_with(failure)
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, SUMMARIES))
        rows = [
            (name, click.Command(name, help=text).get_short_help_str(limit))
            for name, text in SUMMARIES.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests the nearest command. click itself searches only the commands that are loaded, which is none of
        ours."""
        if args[0] in ELSEWHERE:
            raise click.UsageError(f"No such command '{args[0]}'. Write {ELSEWHERE[args[0]]}.", ctx)
        if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{near[0]}'?", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="siltstone", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Siltstone: a Kafka broker that keeps its data on object storage and runs its maintenance on Apache Spark.

    \b
    Take a tour:       siltstone demo --store ./siltstone-data
    Run a broker:      siltstone serve
    Use the broker:    siltstone topics, produce, tail, consume, table, groups
    Look at a store:   siltstone sql, streams, inspect, check, tables, sinks
    Nodes and buckets: siltstone nodes, balance, buckets
    Maintain a store:  siltstone maintain plan, then siltstone maintain run
    Move its metadata: siltstone metadata copy

    serve, sql, nodes, balance, buckets, streams, inspect, tables, sinks, maintain, status, upgrade, check and metadata
    work on a store:
    a folder (--store, or SILTSTONE_STORE), whose objects may be in S3 instead (--bucket). Settings are read from
    FOLDER/siltstone.toml, then from SILTSTONE_... variables, then from --set; a later one wins.

    topics, groups, produce, tail, consume and table work on a broker: an address (--bootstrap, or SILTSTONE_BOOTSTRAP)
    of Siltstone or of any other Kafka broker.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Runs the program ``siltstone``."""
    if debugging():
        logging.basicConfig(level=logging.INFO)
    else:
        keep_quiet()
    try:
        prepare_streams()
    except OutputClosed as failure:
        end_with(failure)
    cli.main(prog_name="siltstone")


def end_with(failure: Exception) -> NoReturn:
    """Ends the program with the line and the exit status of the failure."""
    if line := failure_line(failure):
        said = json_line(logging.ERROR, line) if logs_json() else f"siltstone: {line}"
        print(said, file=sys.stderr)  # noqa: T201
    sys.exit(exit_status(failure))


def keep_quiet() -> None:
    """Discards log records and warnings: a failure is reported once, by the line that ``Commands.main`` prints.

    The handler is on the root logger because py4j logs there when Ctrl-C breaks its connection. At Ctrl-C Python also
    warns about coroutines that were never awaited."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    sys.unraisablehook = _interrupt_again


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Discards what a finalizer raises, such as that of an event loop whose construction was interrupted. Ctrl-C that
    came in one is not discarded: the program is interrupted again a moment later, when this call has ended."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (main_thread, signal.SIGINT))
        again.daemon = True
        again.start()
