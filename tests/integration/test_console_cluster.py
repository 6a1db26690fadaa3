"""Moves by button in a cluster that runs."""

import html
import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from siltstone.cluster.suspicion import SESSION_MS
from siltstone.console import facts
from siltstone.server.embedded import Broker
from siltstone.server.kafka_node import KafkaNode
from support.broker.cluster_clients import Sending, until
from support.broker.one_sided_cluster import leaders, one_sided_cluster
from support.console.of_store import ConsoleOfAStore


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_a_partition_and_a_balance_are_moved_by_button_while_records_flow() -> None:
    with one_sided_cluster() as (broker, sending):
        console = ConsoleOfAStore(broker.folder)
        page = console.ask("/topics/t/partitions/5").text
        assert "siltstone topics move t:5 --to 1" in page and "Node 0 leads it" in page
        form = {"token": "form-token", "topic": "t", "partition": "5", "from": "0", "to": "2"}
        assert console.ask("/cluster/move", form=form).status == 303
        until(lambda: leaders(broker)[5] == 2, "the move")
        assert console.ask("/cluster/move", form=form).status == 409, "it has another leader by now"
        until(lambda: "was not measured" not in console.ask("/cluster/balance").text, "a load of each broker")
        text = console.ask("/cluster/balance").text
        found = re.search(r'name="moves" value="([^"]*)"', text)
        assert found is not None and "siltstone balance run --store" in text
        moves = {"token": "form-token", "moves": html.unescape(found[1])}
        assert console.ask("/cluster/balance/run", form=moves).status == 303
        assert console.newest_run is not None and not console.newest_run.has_failed, console.newest_run
        assert "moved" in console.newest_run.text
        assert set(leaders(broker)) == {0, 1, 2}
        refused = console.ask("/cluster/balance/run", form=moves)
        assert refused.status == 400 and "look at the plan again" in refused.text
        before = sending.acked_counts()
        until(lambda: all(sending.acked_counts()[each] > before[each] for each in before), "answers of all")
        sending.stop()
        assert len(broker.records("t")) == sending.sent


@pytest.mark.parametrize("path", ["/cluster", "/cluster/moves"])
def test_moves_are_counted_once_for_all_that_shows_them(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list and the numbers of the nodes are of the same image, even while partitions move."""
    counts = []

    def one_moves(topics: object) -> list[tuple[str, int, int, int]]:
        counts.append(topics)
        return [("t", len(counts), 0, 0)]

    monkeypatch.setattr(facts, "moves_of", one_moves)
    with Broker(tmp_path / "store"):
        pass
    text = ConsoleOfAStore(tmp_path / "store").ask(path).text
    assert len(counts) == 1 and text.count('<th scope="row">t-1</th>') == 1
    if path == "/cluster":
        assert '<td class="n">1</td><td class="n">1</td>' in text, "node 0 gets one, and gives one away"


def get(address: str, path: str) -> str:
    with urlopen(f"{address}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_a_failover_is_a_silence_with_its_seconds(tmp_path: Path) -> None:
    async def url(node: KafkaNode) -> str:
        assert node.admin is not None
        return node.admin.urls[0]

    settings = {"admin.listeners": "127.0.0.1:0", "admin.console": "true"}
    with Broker(tmp_path / "store", nodes=3, settings=settings) as broker:
        address = broker._thread(0).ask(url)
        assert "No node was silent" in get(address, "/cluster/failovers")
        broker.create_topic("t", partitions=6)
        sending = Sending(broker.bootstrap_servers, "t", 6)
        until(lambda: sending.answered > 100, "answers")
        broker.kill(2)
        until(lambda: "replayed its log" in get(address, "/cluster/failovers"), "the failover")
        text = get(address, "/cluster/failovers")
        found = re.search(r"<title>node 2, ([\d.]+) s: node [01] replayed its log</title>", text)
        assert found is not None, text
        assert SESSION_MS / 1_000 <= float(found[1]) < 60, (
            "from its last beat until the others had its partitions"
        )
        sending.stop()
    text = ConsoleOfAStore(broker.folder).ask("/cluster/failovers").text
    assert "replayed its log" in text and "about" in text, "a later console has it from the log"
