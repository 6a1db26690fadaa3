"""A client's view of a cluster whose brokers answer without sockets, with what the test has set."""

from collections.abc import Callable, Mapping, Sequence

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from siltstone.kafka_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

ANY_BROKER = -1


class _Connection:
    def __init__(self, cluster: "AnsweringCluster", node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def call(self, request: Message, _: type, time_limit_ms: float = 0) -> Message:
        return self._cluster.answered(self._node_id, request)

    def close(self) -> None:
        pass


class AnsweringCluster(Cluster):
    """``leaders``: topic → the broker that leads each partition. ``coordinators``: group → broker. ``answers``: class
    of a request → what a broker answers to it. ``asked``: (broker, request) in their order, without those for
    metadata and coordinators."""

    def __init__(
        self,
        leaders: Mapping[str, Sequence[int]] | None = None,
        coordinators: Mapping[str, int] | None = None,
        brokers: Sequence[int] = (1, 2),
        answers: Mapping[type, Callable[[int, Message], Message]] | None = None,
    ) -> None:
        super().__init__((), ManualClock(), seeded_randomness(1))
        self.topics = {
            name: MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(partition_index=number, leader_id=leader)
                    for number, leader in enumerate(of_topic)
                ],
            )
            for name, of_topic in (leaders or {}).items()
        }
        self.asked: list[tuple[int, Message]] = []
        self.metadata_requests = 0
        self._coordinators = coordinators or {}
        self._node_ids = brokers
        self._answers = answers or {}

    def entrance(self) -> _Connection:
        return _Connection(self, ANY_BROKER)

    def broker(self, node_id: int) -> _Connection:
        return _Connection(self, node_id)

    def answered(self, node_id: int, request: Message) -> Message:
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, node_id=self._coordinators[key]) for key in request.coordinator_keys
                ]
            )
        self.asked.append((node_id, request))
        return self._answers[type(request)](node_id, request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.metadata_requests += 1
        assert request.allow_auto_topic_creation is False
        names = self.topics if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="h", port=node_id) for node_id in self._node_ids
            ],
            topics=[self.topics[name] for name in names if name in self.topics],
        )
