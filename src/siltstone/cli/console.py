"""``siltstone console``: a store as pages in a browser, without a broker."""

import asyncio
import shlex
import signal
import socket
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from siltstone.cli.deadline import ProcessDeadline, counted_signals
from siltstone.cli.failures import INTERRUPTED
from siltstone.cli.interruption import AFTER_FIRST, AFTER_SECOND
from siltstone.cli.logs import DEFAULT_LEVEL, log_to_stderr
from siltstone.cli.output import remark, results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.costing.estimate import CostPrices
from siltstone.model.console_limits import CONSOLE_PORT
from siltstone.offline.opening.store import Store
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.sockets import CannotListen

if TYPE_CHECKING:  # it loads the web libraries
    from siltstone.console.runs import ChangeRuns

HOST = "127.0.0.1"
HOSTS = frozenset({HOST, "localhost"})


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=CONSOLE_PORT, metavar="PORT", show_default=True,
              help="Port on this machine; 0 for a free one.")  # fmt: skip
@click.option("--changes", is_flag=True, help="Let the pages change the store, too.")
@click.option("--open", "opens", is_flag=True, help="Open the browser.")
@store_options
def console(choice: StoreChoice, port: int, changes: bool, opens: bool) -> None:
    """Show a store as pages in a browser.

    Topics and their messages, SQL, tables, objects, what maintenance will do and why, and the nodes. The command needs
    no broker and works beside one. It listens on this machine only, and prints a link that lets one browser in. The
    pages change nothing, unless --changes is given. Ctrl-C ends it.
    """
    log_to_stderr(DEFAULT_LEVEL)
    stop = _Stop()
    click.get_current_context().find_root().call_on_close(stop.close)
    with choice.open() as store:
        prices = choice.settings().admin.prices.of_costs
        asyncio.run(_serve(store, prices, _place(choice), port, stop, changes=changes, opens=opens))


def _place(choice: StoreChoice) -> str:
    """Returns the options with which a command names the same store."""
    return f"--store {shlex.quote(str(choice.store))}"


class _Stop:
    """SIGINT and SIGTERM: the first one ends the console within STOP_MS_MAX, whatever its pages and runs wait for, the
    second one at once."""

    def __init__(self) -> None:
        self._status = 0
        self._deadline = ProcessDeadline(lambda: self._status)

    @contextmanager
    def set_by_signals(self, runs: "ChangeRuns") -> Iterator[asyncio.Event]:
        """Yields what is set by the first signal. Called on the event loop."""
        loop, stopping, count = asyncio.get_running_loop(), asyncio.Event(), counted_signals()

        def arrived(*_: object) -> None:
            number = count()
            if number > 0:
                self._status = INTERRUPTED if runs.is_busy else 0
                self._deadline.set(*(AFTER_FIRST if number == 1 else AFTER_SECOND))
            if number == 1:
                loop.call_soon_threadsafe(told)

        def told() -> None:
            lost = (
                ": the run is cancelled, and what it has not committed is discarded" if runs.is_busy else ""
            )
            remark(f"stopping{lost}; press again to exit now", dim=True)
            stopping.set()

        # Not ``add_signal_handler``: a loop that hangs would never call it.
        before = {each: signal.signal(each, arrived) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield stopping
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def close(self) -> None:
        self._deadline.close()


async def _serve(
    store: Store, prices: CostPrices, place: str, port: int, stop: _Stop, *, changes: bool, opens: bool
) -> None:
    from siltstone.console.application import Console  # noqa: PLC0415  loads the web libraries
    from siltstone.console.pages import PAGES  # noqa: PLC0415
    from siltstone.console.store import OpenedStore  # noqa: PLC0415
    from siltstone.console.visitors import TokenAccess  # noqa: PLC0415
    from siltstone.server.admin.http_serving import HttpConnection, HttpConnections  # noqa: PLC0415

    listening = _bound(port)
    port = listening.getsockname()[1]
    clock = SystemClock()
    access = TokenAccess(clock, system_randomness(), port=port, may_change=changes)
    opened = OpenedStore(store, place, clock, prices)
    found = Console(opened, access, PAGES, HOSTS.__contains__)
    connections = HttpConnections(None, frozenset(), clock)
    connections.console = found.application
    tasks = TaskGroup("console-follow", lambda _: None)
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpConnection(connections), sock=listening
    )
    with stop.set_by_signals(opened.runs) as stopping:
        try:
            tasks.start("metadata", opened.follow())
            link = f"http://{HOST}:{port}/?token={quote(access.token)}"
            results().print(f"The console is at {link}", markup=False, soft_wrap=True)
            results().print("The link lets one browser in. Ctrl-C ends the console.")
            with _opened(link) if opens else nullcontext():
                await stopping.wait()
        finally:
            server.close()
            found.close()
            await connections.close()
            await tasks.cancel()
            await opened.close()


@contextmanager
def _opened(link: str) -> Iterator[None]:
    """Opens the browser on a file that leads to the link: the arguments of a program are seen by every user of the
    machine, and the first who uses the link is let in."""
    with TemporaryDirectory(prefix="siltstone-console-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(link)}">'
            f'<title>Siltstone</title><a href="{escape(link)}">To the console</a>'
        )
        webbrowser.open(page.as_uri())
        yield


def _bound(port: int) -> socket.socket:
    """Raises CannotListen."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
    except OSError as failure:
        listening.close()
        raise CannotListen(
            f"{HOST}:{port} cannot be listened on ({failure.strerror}): choose another --port"
        ) from failure
    return listening
