"""A compacted topic with transactions: whatever is compacted, when and however often, consumers and scans find the
newest committed value of each key, and no aborted one (TP27, TP28, TP47)."""

from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.server.embedded import Broker
from support.kafka.partition_writers import LEVELS, Writers, consumed, consumed_pairs
from support.maintenance.compacted_store import split_and_compact

CONFIG = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


def table_of(broker: Broker) -> dict[bytes | None, bytes]:
    return dict(consumed_pairs(broker, "t", "committed"))


def scanned(broker: Broker, isolation: str) -> list[tuple[bytes | None, bytes]]:
    rows = siltstone.scan("t", store=broker.folder, columns=["key", "value"], isolation=isolation).to_arrow()
    return [(row["key"], row["value"]) for row in rows.to_pylist()]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly(tried="seeds")) for seed in (1, 2))]
)
def test_tp47_compactions_between_transactions_change_no_view(tmp_path: Path, seed: int) -> None:
    rng, folder = Random(seed), tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        broker.create_topic("t", config=CONFIG)
        writers = Writers(broker)
        for _ in range(80):
            match rng.randrange(10):
                case 0:
                    before = table_of(broker)
                    broker.flush()
                    split_and_compact(folder)
                    assert table_of(broker) == before
                case 1 | 2 | 3 if writers.open_names:
                    writers.end(rng.choice(writers.open_names), commits=rng.random() < 0.6)
                case _:
                    name = rng.choice(["", "a", "b", "c"])
                    writers.write("t", name, rng.randrange(1, 3), key=f"k{rng.randrange(6)}")
        assert dict(scanned(broker, "committed")) == table_of(broker)
        for name in writers.open_names:
            writers.end(name, commits=rng.random() < 0.5)
        expected, whole = table_of(broker), len(consumed(broker, "t", "uncommitted"))
    for hours in (1, 2, 3):  # the time limits of markers are over
        split_and_compact(folder, hours_ahead=hours)
    with siltstone.Broker(folder) as broker:
        assert table_of(broker) == expected
        left = consumed_pairs(broker, "t", "committed")
        assert len(left) == len(expected) < whole, "each key is there once"
        for isolation in LEVELS:
            assert scanned(broker, isolation) == consumed_pairs(broker, "t", isolation)
        again = Writers(broker)
        again.write("t", "a", key="k0")
        again.end("a", commits=True)
        assert table_of(broker)[b"k0"].startswith(b"a-"), "the transaction before it was not left open"
        with siltstone.KeyedView(broker.bootstrap_servers, "t") as view:
            assert dict(view) == table_of(broker)
