"""Quotas in tests: one limit in a line, and a broker world or a throttling that has some."""

from typing import Any

from siltstone.broker.quotas.throttling import Throttling
from siltstone.broker.request import ConnectionContext, Listener
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.model.access import ANONYMOUS, Principal
from siltstone.model.quotas import ClientQuota, QuotaEntity, QuotaKey, entity_of
from siltstone.runtime.clock import ManualClock

IN, OUT = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE
WORK, CHANGES = QuotaKey.REQUEST_PERCENTAGE, QuotaKey.CONTROLLER_MUTATION_RATE
CONNECTS = QuotaKey.CONNECTION_CREATION_RATE
EVERY_USER = entity_of(user=None)


def image_with(*limits: tuple[QuotaEntity, QuotaKey, float]) -> MetadataImage:
    quotas = [ClientQuota(entity, ((key, value),)) for entity, key, value in limits]
    return MetadataImage(quotas=ShardedMap((each.key, each) for each in quotas))


class ThrottledClients:
    """A throttling whose image the test changes."""

    def __init__(self, *limits: tuple[QuotaEntity, QuotaKey, float], nodes: int = 1) -> None:
        self.clock = ManualClock()
        self.image = image_with(*limits)
        self.throttling = Throttling(lambda: self.image, self.clock, lambda: nodes)

    def client(self, client_id: str = "app", principal: Principal = ANONYMOUS) -> ConnectionContext:
        made = ConnectionContext(1, "10.0.0.1", Listener("PLAINTEXT", "h", 9092), principal=principal)
        made.client_id = client_id
        return made

    def produced(self, client: ConnectionContext, size_bytes: int) -> None:
        self.throttling.produced(client, size_bytes, self.clock.monotonic_ms())

    def muted_ms(self, client: ConnectionContext) -> int:
        """Returns how long the client is muted, and lets that time pass."""
        muted_ms = self.throttling.told_ms(client)
        self.clock.advance_ms(muted_ms)
        client.muted_until_ms = 0.0
        return muted_ms


async def limit(world: Any, key: QuotaKey, value: float | None, entity: QuotaEntity = EVERY_USER) -> None:
    """Sets a limit of a broker world."""
    await world.parts.metadata.execute(AlterQuotas((QuotaChange(entity, ((key, value),)),)))
