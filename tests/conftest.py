"""Puts ``tests`` on the path, so that shared builders are imported as ``from support.x import y``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from support.engine.s3_server import S3Server, running_s3_server
from support.faults.summary import faults_tried
from support.processes.tried import pytest_runtest_call, record_tried, summarize_tried

__all__ = ["pytest_runtest_call", "record_tried", "s3_server"]

# No deadline: the machines that run this are shared, and a slow example is no fault of the code.
settings.register_profile("siltstone", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=40)  # of make unit
settings.load_profile("siltstone")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server, started by the first test that needs it."""
    with running_s3_server() as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the long tests have tried, and which faults: each run draws only some of them."""
    summarize_tried(terminalreporter)
    for line in faults_tried(terminalreporter.stats):
        terminalreporter.write_line(line)
