"""``siltstone maintain run --flush``: the newest records are in objects before maintenance looks at the store."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.scanning import flushing
from support.processes.cli import run

RUN = ("maintain", "run", "--flush", "--kind", "sweep", "--runner", "in-process")


def produce(broker: siltstone.Broker, value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("t", value)
    assert producer.flush(60) == 0


def test_every_acknowledged_record_is_in_an_object_afterwards(tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as broker:
        produce(broker, "first")
        assert siltstone.scan("t", store=tmp_path / "store", tail="committed").to_arrow().num_rows == 0
        done = run(*RUN, "--topic", "t", "--store", tmp_path / "store")
        assert (done.status, done.out) == (0, "sweep: nothing to do\n"), done
        assert siltstone.scan("t", store=tmp_path / "store", tail="committed").to_arrow().num_rows == 1


def test_a_node_that_cannot_upload_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is the store of a node that died: its streams are open."""
    with siltstone.Broker(tmp_path / "store") as broker:
        produce(broker, "first")
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("*-leases*"))
    monkeypatch.setattr(flushing, "FLUSH_MS_MAX", 1_000)
    refused = run(*RUN, "--store", tmp_path / "copy")
    said = "siltstone: the newest records of node 0 are not in objects: it has not uploaded them within 1 s; start"
    assert refused.status == 1 and said in refused.err, refused
    assert run(*RUN[:2], *RUN[3:], "--store", tmp_path / "copy").status == 0
