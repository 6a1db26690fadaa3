"""``siltstone erasures``: what was erased, and what has become of it."""

import json
from pathlib import Path

import pytest

from siltstone.maintenance.erasure.kind import ErasureKind
from siltstone.server.embedded import Broker
from support.processes.cli import Outcome, run

IN_PROCESS = ("--runner", "in-process")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    with Broker(folder) as broker:
        broker.create_topic("orders", partitions=1)
        lines = b"ada,1\nbob,2\n"
        assert run("produce", "orders", "-b", broker.bootstrap_servers, "-K", ",", stdin=lines).status == 0
    return folder


def erasures(folder: Path, *words: object, **environment: str) -> Outcome:
    return run("erasures", *words, "--store", folder, COLUMNS=None)


def erased(folder: Path, *words: object) -> str:
    done = run("erase", "orders", "--key", "ada", "--yes", "--json", *words, *IN_PROCESS, "--store", folder)
    assert done.status == 0, done
    return str(done.json["erasure"])


def test_none(folder: Path) -> None:
    assert erasures(folder).out == "Nothing was erased by key.\n"
    assert erasures(folder, "list", "--json").json == {"erasures": []}


def test_the_list_and_the_report(folder: Path, tmp_path: Path) -> None:
    name = erased(folder)
    header, row = erasures(folder, "list").out.splitlines()
    assert header.split("\t") == [
        "erasure",
        "topic",
        "keys",
        "requested (UTC)",
        "state",
        "objects",
        "records",
    ]
    assert (row.split("\t")[0], row.split("\t")[4:]) == (name, ["verified", "2", "2"])
    done = erasures(folder, "report", name, "--report", tmp_path / "r.json")
    assert "2 replaced objects not deleted from the buckets yet" in done.out
    assert json.loads((tmp_path / "r.json").read_text())["erasure"] == name


def test_one_that_was_interrupted_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ErasureKind, "carry_out", lambda *_: iter(()))
        done = run("erase", "orders", "--key", "ada", "--yes", *IN_PROCESS, "--store", folder)
        assert done.status == 1
        assert "records of the keys may be left: siltstone erasures resume" in done.err
    (row,) = erasures(folder, "--json").json["erasures"]
    assert row["state"] == "pending"
    done = erasures(folder, "forget", row["erasure"], "--yes")
    assert "is not verified: records of its keys may be left" in done.err
    assert erasures(folder, "resume", row["erasure"], *IN_PROCESS).status == 0
    assert erasures(folder, "--json").json["erasures"][0]["state"] == "verified"


def test_waiting_ends_when_the_bucket_lacks_the_objects(folder: Path) -> None:
    name = erased(folder)
    done = erasures(
        folder, "resume", name, "--wait", "--json", "--set", "sweep.grace_period_ms=1", *IN_PROCESS
    )
    assert done.status == 0, done
    assert done.json["state"] == "complete"
    assert all(each["deleted"] for each in done.json["objects"])


def test_a_forgotten_one_is_gone_from_metadata_and_bucket(folder: Path) -> None:
    name = erased(folder)
    listed = [path for path in (folder / "bucket").rglob("*") if path.name == name]
    assert len(listed) == 1
    done = erasures(folder, "forget", name, "--yes")
    assert done.out == f"Erasure {name} was forgotten.\n"
    assert not listed[0].exists()
    assert erasures(folder, "--json").json == {"erasures": []}
    assert f"there is no erasure {name}; known are: none" in erasures(folder, "report", name).err


def test_one_of_a_deleted_topic_may_be_forgotten_before_it_is_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ErasureKind, "carry_out", lambda *_: iter(()))
        run("erase", "orders", "--key", "ada", "--yes", *IN_PROCESS, "--store", folder)
    (row,) = erasures(folder, "--json").json["erasures"]
    with Broker(folder) as broker:
        assert run("topics", "delete", "orders", "--yes", "-b", broker.bootstrap_servers).status == 0
    assert erasures(folder, "forget", row["erasure"], "--yes").status == 0
