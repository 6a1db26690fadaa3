"""Runs a suite against a broker of its own, in a copy of its sources."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec

from conformance.brokers.broker import BrokerSettings, OpenBroker
from conformance.secured import Grounds, new_grounds
from conformance.suites.preparing import SUITES
from conformance.suites.suite import Suite, SuiteMissing, SuiteOutcome, counted

LINES_KEPT = 200


def run_suite(suite: Suite, open_broker: OpenBroker, sources: Path = SUITES) -> SuiteOutcome:
    clone = sources / suite.clone
    if not clone.is_dir():
        return SuiteOutcome(
            suite.id, missing=f"no clone of {suite.repository} in .build/suites/{suite.clone}"
        )
    commit = _commit_of(clone)
    with tempfile.TemporaryDirectory(prefix="siltstone-suite-", ignore_cleanup_errors=True) as folder:
        grounds = None if suite.secure is None else _new_grounds(Path(folder) / "grounds")
        settings = msgspec.structs.replace(BrokerSettings(), more=suite.settings, grounds=grounds)
        copy = Path(folder) / "sources"
        shutil.copytree(clone, copy, symlinks=True)
        store = Path(folder) / "broker"
        store.mkdir()
        with open_broker(settings, store) as broker:
            began = time.monotonic()
            try:
                output = _output(suite, copy, broker.bootstrap, grounds)
            except SuiteMissing as missing:
                return SuiteOutcome(suite.id, commit, missing=str(missing))
            seconds = time.monotonic() - began
    (sources / f"{suite.id}.txt").write_text(output)
    passed, failed = counted(suite.passed, output), counted(suite.failed, output)
    if not passed and not failed:
        last = " ".join(output.strip().splitlines()[-1:])[:200]
        return SuiteOutcome(suite.id, commit, failures=(f"the suite did not start: {last}",), seconds=seconds)
    return SuiteOutcome(suite.id, commit, len(passed), failed, seconds=seconds)


def _new_grounds(folder: Path) -> Grounds:
    folder.mkdir()
    return new_grounds(folder)


def _output(suite: Suite, copy: Path, address: str, grounds: Grounds | None) -> str:
    if suite.secure is not None and grounds is not None:
        prepared = suite.secure(copy, address, grounds)
    else:
        prepared = suite.prepare(copy, address)
    environment = {**os.environ, **prepared.environment}
    try:
        done = subprocess.run(
            prepared.command, cwd=prepared.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=suite.seconds_max, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""
        return told.decode(errors="replace") if isinstance(told, bytes) else told
    return done.stdout


def _commit_of(clone: Path) -> str:
    """Returns the commit of the clone, short; empty if it is no clone."""
    done = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "--short=8", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else ""
