"""What a node does for the features that all nodes of the store promise: it refuses to start without them, tells which
it has, and makes those final that everybody has (``metadata.features``). It tells its program and the level that the
program knows, too (``metadata.levels``), which only an operator makes final.
"""

import asyncio
import logging

from siltstone.metadata.features import (
    FEATURES,
    PromiseFeature,
    final_level,
    level_of_node,
    put_own_level,
    refuse_to_start,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.levels import STORE_LEVEL, newest_level, put_own_program
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError

log = logging.getLogger(__name__)


def wants_features(image: MetadataImage) -> bool:
    """Whether there is a feature that is not promised yet."""
    return any(final_level(image, name) < level for name, level in FEATURES.items())


async def promise_features(metadata: MetadataService, node_id: int) -> None:
    """Called at the start, and when the nodes of the store change. Once all is promised it writes nothing. Raises
    FeatureIsFinal, and what the metadata raises."""
    refuse_to_start(metadata.image, FEATURES)
    for name, level in FEATURES.items():
        if final_level(metadata.image, name) >= level:
            continue
        life = metadata.image.nodes[node_id].life
        if level_of_node(metadata.image, life, name) != level:
            await metadata.execute(put_own_level(life, name, level))
        final = await metadata.execute(PromiseFeature(name, level))
        if final < level:
            log.info("%s %d waits until every registered node has it", name, level)


async def tell_program(metadata: MetadataService, node_id: int, now_ms: int) -> None:
    """Called at the start, in each life of the node. Both commands travel in one append."""
    life = metadata.image.nodes[node_id].life
    await asyncio.gather(
        metadata.execute(put_own_level(life, STORE_LEVEL, newest_level())),
        metadata.execute(put_own_program(life, now_ms)),
    )


async def promise_later(metadata: MetadataService, node_id: int) -> None:
    try:
        await promise_features(metadata, node_id)
    except SiltstoneError as trouble:  # the next change tries again
        log.warning("the features that all nodes have could not be written: %s", trouble)
