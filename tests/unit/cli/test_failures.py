"""Exit status and line of every kind of failure."""

import click
import pytest

from siltstone.cli.failures import ExtraMissing, Failure, exit_status, failure_line
from siltstone.metadata.refusals import StreamFenced, StreamNotExist
from siltstone.metadata.store.port import NotMetadataLog
from siltstone.model.errors import CorruptData, InvalidRequest, Stale, Unavailable


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (InvalidRequest("x"), 2),
        (ExtraMissing("pyspark", "spark"), 2),
        (NotMetadataLog("x"), 2),
        (click.UsageError("x"), 2),
        (StreamNotExist("x"), 1),
        (StreamFenced("x"), 1),
        (Unavailable("x"), 1),
        (Stale("x"), 1),
        (CorruptData("x"), 1),
        (PermissionError(13, "Permission denied", "/x"), 1),
        (KeyError("x"), 1),
        (Failure(), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_every_failure_has_its_exit_status(failure: BaseException, status: int) -> None:
    assert exit_status(failure) == status


def test_a_failure_is_told_in_one_line() -> None:
    assert failure_line(Unavailable("several\n  lines")) == "several lines"
    assert failure_line(PermissionError(13, "Permission denied", "/x")) == "/x: Permission denied"
    assert failure_line(Failure()) is None
    assert failure_line(ExtraMissing("pyspark", "spark")) == (
        "pyspark is not installed: pip install 'siltstone[spark]'"
    )
    bug = failure_line(KeyError("x"))
    assert bug is not None and "this is a bug, KeyError" in bug and "SILTSTONE_DEBUG=1" in bug
