"""``siltstone balance`` on a store whose brokers have reported their load, and do not run."""

import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from siltstone.cli.balance import command
from siltstone.cluster.balancing.balancer import is_switched_on
from siltstone.cluster.balancing.carrying_out import carry_out
from siltstone.metadata.commands import CreateTopic, MovePartitions, RegisterNode
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.leases.board import NodeLoad, PartitionLoad
from siltstone.metadata.opening import open_board
from siltstone.model.limits import MIB
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome, assert_one_line, run

ID = "ab" * 16
JOINING = [
    RegisterNode(node_id, "life", f"wal-{node_id}", listeners=(NodeListener("PLAINTEXT", "host", 9092),))
    for node_id in range(2)
]


def tell(folder: Path, *mib_in: float) -> None:
    """Both brokers tell of their load now; broker 0 leads the partitions of topic t."""
    settings = load_node_settings(folder, environment={})
    partitions = tuple(PartitionLoad(ID, index, mib * MIB, 0.0, 10.0) for index, mib in enumerate(mib_in))
    with closing(open_board(settings.metadata, SystemClock())) as board:
        now_ms = SystemClock().now_ms()
        board.put_load(NodeLoad(0, 1, now_ms, partitions))
        board.put_load(NodeLoad(1, 1, now_ms))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    with open_store(load_node_settings(folder, environment={}), create=True) as store:
        store.metadata.execute_all([*JOINING, CreateTopic(0, 1, "t", ID, 3, leaders=(0, 0, 0))])
    return folder


@pytest.fixture
def balance(prepared: Path, tmp_path: Path) -> Callable[..., Outcome]:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    tell(tmp_path, 6, 3, 1)
    return lambda *words: run("balance", *words, "--store", tmp_path)


def test_a_plan_shows_loads_moves_and_reasons(balance) -> None:
    outcome = balance("plan")
    assert outcome.status == 0
    assert outcome.out == balance().out
    assert (
        "3 → 2" in outcome.out
        and "10.0 MiB/s → 4.0 MiB/s" in outcome.out
        and "0 B/s → 6.0 MiB/s" in outcome.out
    )
    assert "t-0 0 1 bytes in: broker 0 has 10.0 MiB/s, broker 1 0 B/s, the mean is 5.0 MiB/s" in outcome.words
    assert "siltstone balance run carries this out." in outcome.err


def test_moves_beyond_the_plan_are_counted(balance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(load_node_settings(tmp_path, environment={})) as store:
        store.metadata.execute(CreateTopic(0, 1, "u", "cd" * 16, 40, leaders=(0,) * 40))
    tell(tmp_path, 0, 0, 0)
    shown = balance("plan")
    assert "siltstone balance run carries this out. 8 more are wanted." in shown.err
    assert balance("plan", "--json").json["more_wanted"] == 8
    with monkeypatch.context() as patched:
        patched.setattr(command, "MORE_COUNTED_MAX", 5)
        assert "At least 5 more are wanted." in balance("plan").err
    monkeypatch.setattr(command, "carry_out", lambda moves, order, *_: order(tuple(moves)))
    outcome = balance("run")
    assert outcome.out.rstrip().endswith("10 partitions moved.")
    assert "8 more are wanted. Run it again in a minute, when the loads have been measured." in outcome.err


def test_as_json_it_has_all_numbers(balance) -> None:
    found = balance("plan", "--json").json
    assert found["why_empty"] is None
    moves = [(move["topic"], move["partition"], move["from"], move["to"]) for move in found["moves"]]
    assert moves == [("t", 0, 0, 1)]
    assert found["brokers"][0]["before"]["bytes_in_per_s"] == 10 * MIB
    assert found["brokers"][1]["after"] == {
        "partitions": 1, "bytes_in_per_s": 6 * MIB, "bytes_out_per_s": 0.0, "requests_per_s": 10.0,
    }  # fmt: skip


def test_without_a_reason_to_move_the_reason_is_told(
    balance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "progress", lambda _: pytest.fail("a bar of nothing"))
    tell(tmp_path, 0.1, 0.1, 0.1)
    with open_store(load_node_settings(tmp_path, environment={})) as store:
        store.metadata.execute(CreateTopic(0, 1, "u", "cd" * 16, 2, leaders=(1, 1)))
    for words in (("plan",), ("run",)):
        outcome = balance(*words)
        assert (outcome.status, outcome.err) == (0, "")
        assert (
            "Nothing is moved: every broker is within a fifth, or one partition, of the mean." in outcome.out
        )


def test_brokers_that_told_nothing_are_named(prepared: Path) -> None:
    outcome = run("balance", "--store", prepared)
    assert "Nothing is moved: the load of broker 0 was not measured in the last half minute." in outcome.out
    assert run("balance", "run", "--store", prepared).status == 0


def test_a_run_records_the_moves_and_waits(balance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that runs would move them; the test does not wait for it."""
    monkeypatch.setattr(command, "carry_out", lambda moves, order, *_: order(tuple(moves)))
    outcome = balance("run")
    assert outcome.status == 0 and outcome.out.rstrip().endswith("1 partition moved.")
    with open_store(load_node_settings(tmp_path, environment={})) as store:
        assert [each.target for each in store.metadata.image.topics[ID].partitions] == [1, -1, -1]


def test_a_move_that_hangs_is_told_after_a_minute(balance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "carry_out", partial(carry_out, move_ms_max=0))
    assert_one_line(balance("run", "--json"), 1, "partition t-0 has not reached broker 1 in a minute")


def test_what_is_on_its_way_comes_first(balance, tmp_path: Path) -> None:
    with open_store(load_node_settings(tmp_path, environment={})) as store:
        store.metadata.execute(MovePartitions(((ID, 2, 1),)))
    assert "Nothing is moved: 1 partition is on its way already." in balance("plan").out


def test_the_switch(balance, tmp_path: Path) -> None:
    def is_on() -> bool:
        with open_store(load_node_settings(tmp_path, environment={})) as store:
            return is_switched_on(store.metadata.image)

    assert "Brokers balance by themselves: no (siltstone balance on)." in balance("status").out
    for _ in range(2):
        assert "by themselves now, 2 partitions of a broker at a time" in balance("on").out
        assert is_on()
    assert "Brokers balance by themselves: yes." in balance("status").out
    assert balance("status", "--json").json["automatic"] is True
    for _ in range(2):
        assert balance("off", "--json").json == {"automatic": False}
        assert not is_on()
