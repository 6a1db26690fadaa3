"""(p) Memory and start of a broker whose cluster has 100,000 partitions, of which it leads a third."""

import time

from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_most
from siltstone.metadata.commands import CreateTopic, RegisterNode
from siltstone.metadata.entities import NodeListener
from siltstone.model.limits import GIB, PARTITIONS_PER_COMMAND_MAX
from siltstone.offline.opening.store import open_store
from support.broker.broker_process import BrokerProcess

TITLE = "(p) a broker in a cluster of 100,000 partitions"
PARTITIONS = 100_000
NODES = 3
MEMORY_AIM_GIB = 1.5
START_AIM_S = 15.0
SETTLED_SECONDS = 20.0


def run() -> list[Row]:
    with folder() as place:
        settings = store_settings(place / "store")
        with open_store(settings, create=True) as store:
            for node_id in range(NODES):
                listener = NodeListener("PLAINTEXT", f"node-{node_id}.example", 9092)
                registered = store.metadata.execute(
                    RegisterNode(node_id, f"{node_id:032x}", f"/wal-of-{node_id}", listeners=(listener,))
                )
            for number in range(PARTITIONS // PARTITIONS_PER_COMMAND_MAX):
                leaders = tuple(at % NODES for at in range(PARTITIONS_PER_COMMAND_MAX))
                store.metadata.execute(
                    CreateTopic(
                        NODES - 1, registered.node_epoch, f"topic-{number}", f"{number + 10:032x}",
                        PARTITIONS_PER_COMMAND_MAX, leaders=leaders,
                    )
                )  # fmt: skip
        begun = time.monotonic()
        with BrokerProcess(place / "store", options=("--node-id", "0")) as broker:
            seconds = time.monotonic() - begun
            time.sleep(SETTLED_SECONDS)
            resident_gib = broker.resident_bytes / GIB
    return [
        at_most("from the start to the first client", seconds, START_AIM_S, " s"),
        at_most(f"memory after {SETTLED_SECONDS:.0f} s", resident_gib, MEMORY_AIM_GIB, " GiB"),
    ]
