"""``siltstone serve --node-id N`` in several processes on one store."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess


class ClusterProcesses:
    """A cluster is used in a ``with``, which stops all nodes. A node that is started again has its port."""

    def __init__(
        self,
        folder: Path,
        count: int,
        settings: Mapping[str, str] | None = None,
        *,
        options: Sequence[str] = (),
    ) -> None:
        self._options = options
        self.folder = folder
        self._settings = dict(settings or {})
        self.nodes: dict[int, BrokerProcess] = {}
        self._count = count
        self._store: Store | None = None

    def __enter__(self) -> "ClusterProcesses":
        for node_id in range(self._count):
            self.start(node_id)
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()
        for node in self.nodes.values():
            node.stop()

    def start(self, node_id: int) -> None:
        before = self.nodes.get(node_id)
        port = 0 if before is None else before.address[1]
        node = BrokerProcess(
            self.folder, self._settings, port=port, options=("--node-id", str(node_id), *self._options)
        )
        node.start()
        self.nodes[node_id] = node

    def address(self, node_id: int) -> str:
        host, port = self.nodes[node_id].address
        return f"{host}:{port}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, self.nodes))

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(load_node_settings(self.folder, flags=self._settings))
        return self._store

    @property
    def image(self) -> MetadataImage:
        return self.store.metadata.refresh()

    def move(self, topic: str, partition: int) -> None:
        """Moves the partition to the other one of two nodes, and returns when that leads it."""
        target = 1 - self.leaders(topic)[partition]
        topic_id = self.image.topic_ids[topic]
        self.store.metadata.execute(MovePartitions(((topic_id, partition, target),)))
        deadline = time.monotonic() + 60
        while self.leaders(topic)[partition] != target:
            assert time.monotonic() < deadline, f"{topic}-{partition} was not handed over"
            time.sleep(0.02)

    def leaders(self, topic: str) -> list[int]:
        image = self.image
        return [partition.leader for partition in image.topics[image.topic_ids[topic]].partitions]
