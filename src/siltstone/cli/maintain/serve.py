"""``siltstone maintain serve``: maintenance on its schedule, until it is told to stop."""

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
"""A line for every run that found something to do."""


@click.command()
@click.option("--once", is_flag=True, help="Every kind once, whatever its schedule, then end.")
@runner_options
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default=SERVE_LEVEL,
    help=f"What is logged on stderr [{SERVE_LEVEL}].",
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

    The schedule is the settings maintenance.interval.… of docs/reference.md. Any number may run on a store, and
    beside brokers: the lease of a job keeps them from doing the same twice. What frees space has a thread of its
    own and never waits for what copies. One Spark is started when something needs it, and kept. What fails is set
    aside and tried again; without its metadata the service waits until they are back.

    Ctrl-C, or SIGTERM, ends it within seconds: what is under way is cancelled, what was committed stays, and the
    report says what was done. A second one ends it at once.
    """
    settings = choice.settings()
    runner.check()
    log_to_stderr(log_level)
    with closing(LateRunner(runner.start)) as late, open_service(settings, late.start) as service:
        say = remarks() if as_json else results()
        say.print(
            f"Maintenance is at work (store {settings.folder}, {_words(runner)})",
            markup=False,
            soft_wrap=True,
        )
        is_stopped = _run(service, is_once=once)
        done = service.statistics()
    _report(done, as_json=as_json)
    if once and not is_stopped and any(each.units_failed or each.troubles for each in done.kinds):
        raise Failure


def _run(service: MaintenanceService, *, is_once: bool) -> bool:
    """In a thread, so that signals are heard whatever it does. → Whether somebody stopped it."""
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
        # Not here: the handler may have interrupted somebody who holds what it needs.
        Thread(target=service.stop, args=(reason,), name="stop", daemon=True).start()

    with cancelled_by_signals(stop):
        Thread(target=body, name="maintenance", daemon=True).start()
        ended.wait()
    for failure in failures:
        raise failure
    return bool(stopped)


def _words(runner: RunnerChoice) -> str:
    return "Spark is started when it is needed" if runner.is_spark else "in this process"


def _report(done: ServiceStatistics, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    for line in done.lines:
        results().print(line, markup=False, soft_wrap=True)
