"""``siltstone maintain serve``: runs maintenance on a schedule until Ctrl-C or SIGTERM."""

from contextlib import closing
from threading import Event, Thread

import click

from siltstone.cli.failures import Failure
from siltstone.cli.interruption import cancelled_by_signals
from siltstone.cli.logs import LEVELS, log_to_stderr
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.maintenance.service.service import MaintenanceService
from siltstone.maintenance.service.statistics import ServiceStatistics
from siltstone.maintenance.tasks.runner import LateRunner
from siltstone.server.maintaining import open_service

SERVE_LEVEL = "info"
"""The default: at info, the service logs a line for every run that had work."""


@click.command()
@click.option("--once", is_flag=True, help="Run every kind once, whatever its schedule, then exit.")
@runner_options
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default=SERVE_LEVEL,
    help=f"Log records of this level and above on stderr [{SERVE_LEVEL}].",
)
@json_option
@store_options
def serve(
    choice: StoreChoice,
    once: bool,
    runner: RunnerChoice,
    log_level: str,
    as_json: bool,
) -> None:
    """Run each kind of maintenance on its schedule, until stopped.

    The settings maintenance.interval.… (docs/reference.md) are the schedule. Several services can run on one store, and
    beside brokers: the lease of a job prevents two of them from doing the same work. Deletion runs in its own thread
    and is never blocked by compaction. Spark is started when a unit first needs it, and kept. A unit that fails is set
    aside and retried later. If the metadata database cannot be reached, the service waits and retries.

    Ctrl-C or SIGTERM: the service cancels running tasks, prints a report and exits within seconds; committed units stay
    committed. Press again to exit at once.
    """
    settings = choice.settings()
    runner.check()
    log_to_stderr(log_level)
    with closing(LateRunner(runner.start)) as late, open_service(settings, late.start) as service:
        say = remarks() if as_json else results()
        say.print(
            f"Maintenance is running (store {settings.folder}, {_words(runner)})",
            markup=False,
            soft_wrap=True,
        )
        is_stopped = _run(service, is_once=once)
        done = service.statistics()
    _report(done, as_json=as_json)
    if once and not is_stopped and any(each.units_failed or each.troubles for each in done.kinds):
        raise Failure


def _run(service: MaintenanceService, *, is_once: bool) -> bool:
    """Runs the service in a thread, so that this thread can handle signals at any time. Returns whether a signal
    stopped it."""
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

    with cancelled_by_signals(stop):
        Thread(target=body, name="maintenance", daemon=True).start()
        ended.wait()
    for failure in failures:
        raise failure
    return bool(stopped)


def _words(runner: RunnerChoice) -> str:
    return "Spark is started when needed" if runner.is_spark else "tasks run in this process"


def _report(done: ServiceStatistics, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for line in done.lines:
        results().print(line, markup=False, soft_wrap=True)
