"""How many files of ours a reader has to open to follow a life: those that a profiler sees run. The ceilings may only
fall; a new layer on a path shows here."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.maintenance.from_python import plan
from siltstone.offline.opening.settings import load_store_settings
from siltstone.offline.opening.store import open_store

SOURCE = f"{Path(siltstone.__file__).parent}/"

CEILINGS = {"produce": 50, "sso-compaction": 86, "idle run": 40, "scan": 62, "export": 137}
"""Life → the most files that run in it. Before the house was put in order, a compaction had 109, an export 124. A
produce had 46 before logins, rights and transactions, which each have a look at it."""


class FilesRun:
    """A hook for ``sys.setprofile`` that notes our files while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call":
            name = frame.f_code.co_filename
            if name.startswith(SOURCE) and frame.f_code.co_name != "<module>":
                self.files.add(name.removeprefix(SOURCE))

    def of(self, act: Callable[[], object]) -> set[str]:
        """Returns the files in which a function is called. Nothing is collected meanwhile: what other tests left
        behind would be closed by files of its own."""
        gc.collect()
        gc.disable()
        self.files, self.is_on = set(), True
        try:
            act()
        finally:
            self.is_on = False
            gc.enable()
        return self.files


@pytest.fixture
def hook() -> Iterator[FilesRun]:
    made = FilesRun()
    threading.setprofile(made)
    sys.setprofile(made)
    try:
        yield made
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def filled(folder: Path) -> Iterator[tuple[siltstone.Broker, Producer]]:
    with siltstone.Broker(folder) as broker:
        as_table = NewTopic("u", config={"siltstone.table.format": "parquet"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([as_table])["u"].result(60)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for _ in range(3):
            for number in range(50):
                producer.produce("t", b"x" * 500, key=b"%d" % number)
                producer.produce("u", b"y" * 300)
            producer.flush(60)
            broker.flush()
        yield broker, producer


def assert_below(life: str, files: set[str]) -> None:
    assert 10 < len(files) <= CEILINGS[life], (life, len(files), sorted(files))


def test_the_files_of_a_produce(tmp_path: Path, hook: FilesRun) -> None:
    with filled(tmp_path / "store") as (_, producer):

        def produce() -> None:
            producer.produce("t", b"one", partition=0)
            assert producer.flush(60) == 0

        produce()
        # The broker's clocks tick meanwhile, more of them on a busy machine.
        assert_below("produce", min((hook.of(produce) for _ in range(7)), key=len))


def test_the_files_of_maintenance_and_of_a_scan(tmp_path: Path, hook: FilesRun) -> None:
    with filled(tmp_path / "store"):
        pass
    settings = load_store_settings(tmp_path / "store", environment={})
    with open_store(settings) as store:  # without Spark: its start would count as files of maintenance

        def run(kind: str) -> Callable[[], object]:
            return lambda: plan(store, kinds=[kind]).run()

        run("dead-objects")()
        assert_below("idle run", hook.of(run("dead-objects")))
        plan(store, kinds=["sso-compaction"])
        assert_below("sso-compaction", hook.of(run("sso-compaction")))
        assert_below("export", hook.of(run("table-export")))
        siltstone.scan("u", store=store).to_arrow()
        assert_below("scan", hook.of(lambda: siltstone.scan("t", store=store).to_arrow()))
