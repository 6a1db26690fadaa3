"""Puts ``tests`` on the path, so that shared builders are imported as ``from support.x import y``."""

import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from support.engine.minio_server import running_minio
from support.engine.s3_server import S3Server, running_s3_server
from support.faults.summary import faults_tried
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.night import name_this_night
from support.processes.tried import pytest_runtest_call, record_tried, summarize_tried

__all__ = ["postgres_server", "pytest_runtest_call", "record_tried", "s3_server"]

name_this_night()

# Compiled modules are kept, whatever the environment says: tests start some 300 processes, each of which would compile
# ours again, and each worker of pytest-xdist would rewrite the assertions of 1,100 modules in every run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No deadline: the machines that run this are shared, and a slow example is no fault of the code.
settings.register_profile("thorough", deadline=None)  # of make nightly
settings.register_profile("siltstone", deadline=None, max_examples=50)
settings.register_profile("quick", deadline=None, max_examples=40)  # of make unit
settings.load_profile("siltstone")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As nohup and "&" of a script start a process. The programs under test would inherit it, and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The scheduler of pytest-xdist knows the group of a test by the end of its id, which pytest 9.2 no longer takes
    from ``_nodeid``: without this each worker starts every Spark, server and broker that tests share."""
    for item in items:
        grouped = vars(item).pop("_nodeid", None)
        if grouped is not None and hasattr(item, "_id"):
            item._id = type(item._id).parse(grouped)
    items[:] = simulations_spread(items)


def simulations_spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Returns the tests in their order, with the simulations of the night spread evenly among the others: they only
    compute, while most of the others wait for processes, so side by side both take less time."""
    simulations = [item for item in items if SIMULATIONS in item.path.parents and is_nightly(item)]
    spread = set(simulations)
    others = [item for item in items if item not in spread]
    places = [(number / len(others), item) for number, item in enumerate(others)]
    places += [((number + 0.5) / len(simulations), item) for number, item in enumerate(simulations)]
    return [item for _, item in sorted(places, key=lambda place: place[0])]


def is_nightly(item: pytest.Item) -> bool:
    return item.get_closest_marker("nightly") is not None


SIMULATIONS = Path(__file__).parent / "simulation"
FROZEN_EVERY = 250
"""Tests. What they import and report stays, as what was collected does."""

ended = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and 15,000 collected tests stay until the end: the garbage collector need not look at them each time a
    test asks for a collection, which took seconds."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    if next(ended) % FROZEN_EVERY == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server, started by the first test that needs it."""
    with running_s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def minio_server() -> Iterator[S3Server]:
    """Another one, which Go builds at its first use: for tests at night."""
    with running_minio() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL, started by the first test that needs it."""
    with running_postgres_server() as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the long tests have tried, and which faults: each run draws only some of them."""
    summarize_tried(terminalreporter)
    for line in faults_tried(terminalreporter.stats):
        terminalreporter.write_line(line)
