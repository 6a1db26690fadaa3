import pytest

from support.broker.in_process import InProcessBroker
from support.processes.cli import assert_one_line

LOOKS = """\
partition  start  new start  records to delete
──────────────────────────────────────────────
        0      0         10                 10
        1      0         15                 15
        2      0          0                  0
"""


@pytest.fixture
def filled(broker: InProcessBroker) -> InProcessBroker:
    """Topic t: partition 0 holds 10 records, partition 1 has 20, partition 2 none."""
    broker.siltstone("topics", "create", "t", "--partitions", 3)
    for partition in (0, 1):
        broker.siltstone("produce", "t", "--partition", partition, stdin=b"x\n" * 10 * (partition + 1))
    return broker


def starts(broker: InProcessBroker) -> list[int]:
    rows = broker.siltstone("topics", "describe", "t", "--json").json["partitions"]
    return [row["start_offset"] for row in rows]


def test_a_dry_run_shows_what_would_go(filled: InProcessBroker) -> None:
    dry = filled.siltstone("topics", "trim", "t", "--before", 15, "--dry-run")
    assert [line.rstrip() for line in dry.out.splitlines()] == LOOKS.splitlines()
    assert (dry.status, dry.err) == (0, "Nothing was deleted.\n")
    assert filled.siltstone("topics", "trim", "t", "--before", 15, "--dry-run", "--json").json == {
        "topic": "t", "dry_run": True, "records": 25,
        "partitions": [
            {"partition": 0, "start_offset": 0, "new_start_offset": 10, "records": 10},
            {"partition": 1, "start_offset": 0, "new_start_offset": 15, "records": 15},
            {"partition": 2, "start_offset": 0, "new_start_offset": 0, "records": 0},
        ],
    }  # fmt: skip
    assert starts(filled) == [0, 0, 0]


def test_records_are_deleted_after_a_yes_only(filled: InProcessBroker) -> None:
    refused = filled.siltstone("topics", "trim", "t", "--before", 15)
    assert refused.status == 2 and "Delete 25 records of t?" in refused.err and starts(filled) == [0, 0, 0]
    done = filled.siltstone("topics", "trim", "t", "--before", 15, "--partition", 1, "--yes")
    assert (done.status, done.err, starts(filled)) == (0, "Deleted 15 records.\n", [0, 15, 0])
    told = filled.siltstone("topics", "trim", "t", "--before", "latest", "--yes", "--json").json
    assert (told["dry_run"], told["records"], starts(filled)) == (False, 15, [10, 20, 0])


def test_without_a_record_to_delete_nothing_is_asked(filled: InProcessBroker) -> None:
    nothing = filled.siltstone("topics", "trim", "t", "--before", 5, "--partition", 2)
    assert (nothing.status, nothing.err) == (0, "Nothing was deleted.\n")


def test_a_time_deletes_what_is_older(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t")
    lines = b"".join(b'{"value": "v", "timestamp": %d}\n' % (1000 * n) for n in range(4))
    broker.siltstone("produce", "t", "--format", "json", stdin=lines)
    dry = broker.siltstone("topics", "trim", "t", "--before-time", "@1500", "--dry-run", "--json").json
    assert dry["records"] == 2


def test_how_far_has_to_be_said_once_and_clearly(filled: InProcessBroker) -> None:
    reasons = {
        (): "either with --before OFFSET or with --before-time TIME",
        ("--before", "3", "--before-time", "@0"): "either with --before OFFSET or with --before-time TIME",
        ("--before", "2h"): "--before 2h is a time: use --before-time",
        ("--before-time", "3"): "--before-time '3': write a time",
    }
    for words, reason in reasons.items():
        assert_one_line(filled.siltstone("topics", "trim", "t", *words, "--yes"), 2, reason)
    assert starts(filled) == [0, 0, 0]
