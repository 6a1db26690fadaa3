"""``siltstone serve``: runs a broker, or several on one machine, until Ctrl-C or SIGTERM."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from siltstone.cli.logs import DEFAULT_LEVEL, LEVELS, level_for, log_format_option, log_to_stderr
from siltstone.cli.output import remark
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.serve.checking import check_start
from siltstone.cli.serve.kept_process import WITH_PARENT, KeptProcess, end_with_parent, own_command
from siltstone.cli.serve.one_node import is_missing, serve_one_node
from siltstone.cli.serve.own_certificate import ClientFile, with_own_certificate
from siltstone.cli.serve.several_nodes import NodeProcesses
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.runtime.clock import SystemClock
from siltstone.server.admin.addresses import parse_admin_addresses
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.node_flags import flags_of_nodes, moved
from siltstone.server.node_listeners import addresses_of, refuse_unusable_files
from siltstone.server.python_process import kept_heap, run
from siltstone.server.settings.node import DEFAULT_LISTENER, NodeSettings
from siltstone.server.start_check import ports_of
from siltstone.stream_engine.wal.attached import folder_of_url

log = logging.getLogger(__name__)

NODES_MAX = 64
"""The most nodes on one machine. More nodes than cores gain nothing, and a port number that was typed here by mistake
is refused."""


class BrokerCommand(click.Command):
    """Explains how a port is given: for --port click would suggest --store, the option with the most similar
    letters."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            if unknown.option_name != "--port":
                raise
            raise click.UsageError("No such option '--port'. Write --listener HOST:PORT.", ctx) from unknown


@click.command(cls=BrokerCommand)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help=f"Address to listen on; repeatable; port 0 picks a free port [{DEFAULT_LISTENER}].",
)
@click.option(
    "--advertised-listener",
    "advertised",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address advertised to clients for the listener NAME, if different from the one it binds; repeatable.",
)
@click.option(
    "--node-id",
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help="Number of this node; several nodes with different numbers on one store are a cluster [engine.node_id].",
)
@click.option(
    "--nodes",
    "count",
    type=click.IntRange(1, NODES_MAX),
    default=1,
    metavar="N",
    help="Run N nodes on this machine, a process each; each listens one port higher than the one before [1].",
)
@click.option(
    "--recover",
    multiple=True,
    callback=lambda _context, _option, urls: [folder_of_url(url) for url in urls],
    metavar="file:///FOLDER",
    help="Recover the write-ahead log of a node whose machine is gone: the log's folder on its disk, which is now "
    "attached to this machine; repeatable.",
)
@click.option(
    "--tls-self-signed",
    is_flag=True,
    help="Encrypt, with a certificate that is made in FOLDER/tls and kept, for a first try; prints what clients need "
    "[extra tls].",
)
@click.option(
    "--check",
    "only_checks",
    is_flag=True,
    help="Start nothing: check settings, certificates, secrets, rights, metadata, buckets and ports, a line each, and "
    "exit with 0, with 2 if the start would be refused, or with 1 if a place does not answer.",
)
@click.option(WITH_PARENT, "with_parent", is_flag=True, hidden=True, help="End when stdin is closed.")
@click.option(
    "--together", default="", hidden=True, help="The numbers of the nodes that end when stdin is closed."
)
@click.option("-v", "--verbose", count=True, help="Log more on stderr: -v for info, -vv for debug.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help=f"Log records of this level and above on stderr [{DEFAULT_LEVEL}].",
)
@log_format_option
@click.option(
    "--with-maintenance",
    is_flag=True,
    help="Run siltstone maintain serve, too, in a process beside the broker.",
)
@runner_options
@store_options
@click.pass_context
def serve(
    context: click.Context,
    *,
    choice: StoreChoice,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    node_id: int | None,
    count: int,
    recover: Sequence[Path],
    tls_self_signed: bool,
    only_checks: bool,
    with_parent: bool,
    together: str,
    verbose: int,
    log_level: str | None,
    log_format: str,
    with_maintenance: bool,
    runner: RunnerChoice,
) -> None:
    """Run a Kafka broker on a store, which is created if missing.

    A broker only adds: siltstone maintain serve, on this machine or another, compacts and deletes. With
    --with-maintenance it runs in a process beside the broker, is started again when it dies, and ends with the broker;
    --runner, --master and --conf are for it. Without it the log says when no maintenance has run for two days.

    One node uses one core. --nodes 3 starts three nodes, with the numbers 0, 1 and 2 and the ports 9092, 9093 and 9094,
    each in a process of its own that is started again when it dies. Clients see three brokers, and partitions spread
    over them. To run nodes on several machines, start siltstone serve --node-id N on each.

    --recover is for a node whose machine is gone, and its log in files with it: attach its disk to a machine with
    another node, and start that one with it. When the dead node is fenced, this one uploads what only that log holds,
    and the partitions get other leaders. Nothing is recovered from the log of a live node.

    Ctrl-C or SIGTERM: the broker finishes open requests, uploads and commits all data, and exits with status 0. After
    network.close_time_limit_ms and engine.close_time_limit_ms together it exits all the same, with status 3 if not
    everything is committed. Press Ctrl-C again to exit immediately; nothing acknowledged is lost, because the next
    start recovers it from the write-ahead log. The broker exits with status 1 when it cannot store data any more, for
    instance because the disk of the log has failed. While that disk is full, appends are refused and reads continue.
    If the bucket fails, the broker keeps serving until its log is full.
    """
    level = level_for(log_level, verbose)
    log_to_stderr(level, log_format, choice.flags.get("engine.node_id") if with_parent else None)
    number = None if node_id is None else str(node_id)
    settings_now = _rereading(choice, listeners, advertised, number)
    settings = settings_now()
    if only_checks:
        _refuse_to_write(context, tls_self_signed or bool(recover))
        _check_runner(context, runner, with_maintenance=with_maintenance)
        check_start(settings, _ports(settings, count, with_maintenance=with_maintenance))
        return
    client_file = None
    if tls_self_signed:
        choice, client_file = with_own_certificate(choice, settings, SystemClock())
        settings = choice.settings(engine__node_id=number)
    _check_runner(context, runner, with_maintenance=with_maintenance)
    if recover and count != 1:
        raise click.UsageError("--recover is for one node: start it without --nodes.", context)
    addresses = addresses_of(settings)
    refuse_unusable_files(settings, addresses, SystemClock())
    for address in () if with_parent else addresses:
        _warn_of_misleading(address)
    log_options = ("--log-level", level, "--log-format", log_format)
    maintenance = _maintenance_beside(choice, settings, runner, log_options) if with_maintenance else None
    if count == 1:
        _serve_one(
            settings, maintenance, client_file, recover, together if with_parent else None, settings_now
        )
    else:
        _serve_several(choice, settings, count, maintenance, log_options, client_file)


def _rereading(
    choice: StoreChoice, listeners: Sequence[str], advertised: Sequence[str], number: str | None
) -> Callable[[], NodeSettings]:
    """Returns what reads the settings, now and at each SIGHUP."""
    return partial(
        choice.settings,
        listeners=",".join(listeners) or None,
        advertised_listeners=",".join(advertised) or None,
        engine__node_id=number,
    )


def _refuse_to_write(context: click.Context, would_write: bool) -> None:
    if would_write:
        raise click.UsageError("--check writes nothing: leave --tls-self-signed and --recover out.", context)


def _ports(settings: NodeSettings, count: int, *, with_maintenance: bool) -> list[ListenerAddress]:
    """Returns the addresses that this start would bind, on all its nodes. Raises InvalidListener."""
    first = ports_of(settings)
    flags_of_nodes(settings, count)  # refuses nodes that would meet at a port
    ports = [moved(each, number) for number in range(count) for each in first]
    if with_maintenance:
        ports += parse_admin_addresses(settings.admin.of_maintenance, settings.admin_listener)
    return ports


def _serve_one(
    settings: NodeSettings,
    maintenance: KeptProcess | None,
    client_file: ClientFile | None,
    recover: Sequence[Path],
    together: str | None,
    reread: Callable[[], NodeSettings],
) -> None:
    """Runs the node in this process until it ends. ``together``: the nodes that end when the process that keeps this
    one is gone; None: no process keeps it."""
    heap = kept_heap()
    if together is not None:
        end_with_parent()
    others = [int(number) for number in (together or "").split(",") if number]
    run(
        serve_one_node(
            settings,
            addresses_of(settings),
            maintenance,
            client_file,
            has_parent=together is not None,
            together=others,
            recover=recover,
            reread=reread,
        ),
        heap,
    )


def _maintenance_beside(
    choice: StoreChoice, settings: NodeSettings, runner: RunnerChoice, log_options: tuple[str, ...]
) -> KeptProcess:
    """Raises InvalidListener: what is wrong with its admin listeners is said now, and not in the log."""
    parse_admin_addresses(settings.admin.of_maintenance, settings.admin_listener)
    listeners = settings.admin.maintenance_listeners
    return kept_maintenance(maintenance_command(choice, runner, listeners, log_options))


def _serve_several(
    choice: StoreChoice,
    settings: NodeSettings,
    count: int,
    maintenance: KeptProcess | None,
    log_options: tuple[str, ...],
    client_file: ClientFile | None,
) -> None:
    """Runs a process for each node until all of them end."""
    flags_of = flags_of_nodes(settings, count)
    options = ("--together", ",".join(map(str, flags_of)), *log_options)
    commands = {
        node_id: [*own_command(("serve",), choice, flags), *options] for node_id, flags in flags_of.items()
    }
    promised_ms = settings.network.close_time_limit_ms + settings.engine.close_time_limit_ms
    nodes = NodeProcesses(commands, promised_ms, maintenance, client_file)
    is_new = is_missing(settings.metadata)
    if is_new:
        remark(f"creating a new store at {settings.folder}")
    nodes.run(first_alone=is_new is not False)


def _check_runner(context: click.Context, runner: RunnerChoice, *, with_maintenance: bool) -> None:
    """Refuses a runner that cannot be started, before the broker starts, and a runner that nothing would use."""
    if with_maintenance:
        runner.check()
        return
    for name in ("runner", "master", "conf"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for maintenance: add --with-maintenance.", context)


def _warn_of_misleading(address: ListenerAddress) -> None:
    if address.misleads_others:
        remark(
            f"warning: {address} accepts other machines but tells them to connect to {address.advertised_host}, which "
            f"is their own: add --advertised-listener {address.name}://HOST:PORT with an address they can reach",
            fg="yellow",
        )


def maintenance_command(
    choice: StoreChoice, runner: RunnerChoice, admin_listeners: str, log_options: tuple[str, ...]
) -> list[str]:
    """Returns the command line of the process. The process has admin listeners of its own, because those of the
    settings are the broker's."""
    command = own_command(("maintain", "serve"), choice, {"admin.listeners": admin_listeners})
    command += ["--runner", runner.name, "--master", runner.master]
    for name, value in runner.settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, *log_options]


def kept_maintenance(command: Sequence[str]) -> KeptProcess:
    """Returns the process, not yet started. If the process dies, the broker logs it and continues serving."""
    return KeptProcess(
        "maintenance",
        command,
        consequence=". The broker is not affected",
        on_started=lambda number: log.info("maintenance runs in process %d", number),
    )
