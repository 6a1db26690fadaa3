"""A store whose level a later program raises, beside this one: who is refused, when, by which words, and that a refused
program writes nothing.

The later program is this version with one more level (``support.faults.newer_serve``).
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.model.version import VERSION
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import until

NEWER = (sys.executable, "-m", "support.faults.newer_serve")
OURS = (sys.executable, "-m", "siltstone")
TOO_NEW = "the store has level 3, to which siltstone 0.2.0 raised it"
KNOWS = f"this program is siltstone {VERSION} and knows levels up to 2. Nothing was written: install siltstone 0.2.0"

pytestmark = pytest.mark.crash


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def called(program: tuple[str, ...], *words: str, store: Path) -> "subprocess.CompletedProcess[str]":
    command = [*program, *words, "--store", str(store)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), timeout=120
    )


def status(program: tuple[str, ...], store: Path) -> dict[str, object]:
    return json.loads(called(program, "status", "--json", store=store).stdout)["status"]  # type: ignore[no-any-return]


def files_of(store: Path) -> dict[str, str]:
    """Every file of the store but the lease board, and what is in it."""
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and "metadata.sqlite-" not in path.name
    }


def test_op04_op06_a_later_level_waits_for_every_node_and_then_keeps_older_programs_out(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    ours = BrokerProcess(store, options=("--node-id", "1"), log_name="ours")
    with BrokerProcess(store, options=("--node-id", "0"), program=NEWER, environment=environment()) as newer:
        with ours:
            early = called(NEWER, "nodes", "drain", "1", "--no-wait", store=store)
            assert early.returncode == 1 and "NodeDraining needs level 3" in early.stderr, early
            refused = called(NEWER, "upgrade", store=store)
            assert refused.returncode == 2, refused
            assert (
                f"node 1 runs siltstone {VERSION} and knows level 2. Install siltstone 0.2.0"
                in refused.stderr
            )
            assert [node["version"] for node in status(OURS, store)["nodes"]] == ["0.2.0", VERSION]  # type: ignore[attr-defined]
            assert called(OURS, "upgrade", store=store).returncode == 0, "level 2 is known to both"
            assert ours.stop() == 0
        until(lambda: called(NEWER, "upgrade", store=store).returncode == 0, "node 1 is fenced")
        options = ("--node-id", "1")
        with BrokerProcess(
            store, options=options, program=NEWER, environment=environment(), log_name="1"
        ) as replaced:
            assert called(NEWER, "nodes", "drain", "1", store=store).returncode == 0, "its level is there now"
            assert replaced.stop() == 0
        assert status(NEWER, store)["way_back"] == {  # type: ignore[comparison-overlap]
            "level": 3, "program": "0.2.0", "until_level": None,
            "metadata_version": status(NEWER, store)["way_back"]["metadata_version"],  # type: ignore[index]
        }  # fmt: skip
        assert newer.stop() == 0
    before = files_of(store)
    for words in (
        ("serve", "--node-id", "1", "--listener", "127.0.0.1:0"),
        ("maintain", "run", "--runner", "in-process"),
        ("nodes", "unregister", "0"),
        ("status",),
        ("upgrade",),
        ("check", "--repair"),
        ("backup", str(tmp_path / "backup")),
    ):
        said = called(OURS, *words, store=store)
        assert said.returncode == 2 and TOO_NEW in said.stderr and KNOWS in said.stderr, said
        assert "Traceback" not in said.stderr and said.stderr.count("\n") == 1, said
        assert files_of(store) == before, "a program that is too old writes nothing"
    with BrokerProcess(store, options=("--node-id", "0"), program=NEWER, environment=environment()) as again:
        assert again.stop() == 0


def test_op04_a_later_program_starts_on_a_store_of_this_level_and_hands_it_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with BrokerProcess(store) as first:
        assert called(OURS, "upgrade", store=store).returncode == 0
        assert first.stop() == 0
    with BrokerProcess(store, program=NEWER, environment=environment()) as later:
        found = status(NEWER, store)
        assert (found["level"], found["newest_level"]) == (2, 3)
        assert found["way_back"]["until_level"] == 3  # type: ignore[index]
        assert later.stop() == 0
    with BrokerProcess(store) as back:
        assert back.stop() == 0
    checked_store(store)
