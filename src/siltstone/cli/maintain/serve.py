"""``siltstone maintain serve``: runs maintenance on a schedule until Ctrl-C or SIGTERM."""

from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread

import click

from siltstone.cli.failures import Failure
from siltstone.cli.interruption import cancelled_by_signals
from siltstone.cli.logs import LEVELS, log_format_option, log_to_stderr
from siltstone.cli.output import print_json, remark, result, results
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.serve.kept_process import WITH_PARENT, end_with_parent
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.maintenance.service.service import MaintenanceService
from siltstone.maintenance.service.statistics import KindStatistics, MaintenanceStatistics
from siltstone.offline.tasks.runner import LateRunner
from siltstone.server.maintaining import open_service

SERVE_LEVEL = "info"
"""The default: at info, the service logs a line for every run that had work."""


@click.command()
@click.option("--once", is_flag=True, help="Run every kind once, whatever its schedule, then exit.")
@click.option(WITH_PARENT, "with_parent", is_flag=True, hidden=True, help="End when stdin is closed.")
@runner_options
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default=SERVE_LEVEL,
    help=f"Log records of this level and above on stderr [{SERVE_LEVEL}].",
)
@log_format_option
@json_option
@store_options
def serve(
    choice: StoreChoice,
    once: bool,
    with_parent: bool,
    runner: RunnerChoice,
    log_level: str,
    log_format: str,
    as_json: bool,
) -> None:
    """Run each kind of maintenance on its schedule, until stopped.

    The settings maintenance.interval.… are the schedule. Several services can run on one store, and beside brokers: the
    lease of a job prevents two of them from doing the same work. Deletion runs in its own thread and is never blocked
    by compaction. Spark is started when a unit first needs it, and kept. A unit that fails is set aside and retried
    later. If the metadata database cannot be reached, the service waits and retries, also when it starts.

    Ctrl-C or SIGTERM: the service cancels running tasks, prints a report and exits within seconds; committed units stay
    committed. Press again to exit at once.
    """
    log_to_stderr(log_level, log_format)
    settings = choice.settings()
    runner.check()
    if with_parent:
        end_with_parent()  # before the store is opened, which may wait for the metadata
    with (
        closing(LateRunner(runner.start)) as late,
        open_service(settings, late.start, waits=not once) as service,
    ):
        say = remark if as_json else result
        line = f"Maintenance is running (store {settings.folder}, {_words(runner)})"
        is_stopped = _run(service, is_once=once, has_parent=with_parent, announce=lambda: say(line))
        done = service.statistics()
    _report(done, as_json=as_json)
    if once and not is_stopped and any(_has_failed(each) for each in done.kinds):
        raise Failure


SIGNALS_LOOKED_FOR_SECONDS = 0.2
"""A signal that comes after Python has looked for signals, and before the system call that waits, does not end the
wait: a wait without end would never learn of it."""


def _has_failed(kind: KindStatistics) -> bool:
    return bool(kind.units_failed or kind.troubles or kind.unusable)


def _run(
    service: MaintenanceService, *, is_once: bool, has_parent: bool, announce: Callable[[], None]
) -> bool:
    """Runs the service in a thread, so that this thread can handle signals at any time: from when it announces that
    the service is running. Returns whether a signal stopped it."""
    failures: list[BaseException] = []
    ended = Event()
    stopped: list[str] = []

    def body() -> None:
        try:
            service.run_once() if is_once else service.run()
        except BaseException as failure:
            failures.append(failure)
        finally:
            ended.set()

    def stop(reason: str) -> None:
        stopped.append(reason)
        # Not in this thread: the signal may have interrupted it while it held a lock that ``service.stop`` needs.
        Thread(target=service.stop, args=(reason,), name="stop", daemon=True).start()

    with cancelled_by_signals(stop, is_silent=has_parent):
        announce()
        Thread(target=body, name="maintenance", daemon=True).start()
        while not ended.wait(SIGNALS_LOOKED_FOR_SECONDS):
            pass
    for failure in failures:
        raise failure
    return bool(stopped)


def _words(runner: RunnerChoice) -> str:
    return "Spark is started when needed" if runner.is_spark else "tasks run in this process"


def _report(done: MaintenanceStatistics, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for line in done.lines:
        results().print(line, markup=False, soft_wrap=True)
