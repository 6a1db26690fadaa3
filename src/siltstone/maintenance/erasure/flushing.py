"""Has the nodes drop what they keep of uploaded records: batches in memory, and files of their logs.

A node drops them with a flush while an erasure is pending. That all nodes have done it is kept with the erasure, which is
not verified before: the command that asked for it may have been killed in between, or a node may have died.
"""

from collections.abc import Callable, Iterable

import msgspec

from siltstone.offline.context import MaintenanceContext
from siltstone.offline.erasures import erasures_of, put_erasure
from siltstone.scanning.failures import NodeNotFlushed
from siltstone.scanning.flushing import flush_nodes


def drop_kept(
    context: MaintenanceContext, erasure_ids: Iterable[str], check: Callable[[], None]
) -> dict[str, str]:
    """Flushes all nodes for those of the erasures that are not marked with it, and marks them. Returns the ids of the
    erasures of whose keys a node may still keep records, each with the reason. Raises what the metadata and ``check``
    raise."""
    wanted = frozenset(erasure_ids)
    image = context.metadata.refresh()
    unflushed = {
        each.erasure_id for each in erasures_of(image) if each.erasure_id in wanted and not each.flushed_ms
    }
    if not unflushed:
        return {}
    try:
        flush_nodes(context, check)
    except NodeNotFlushed as trouble:
        return dict.fromkeys(unflushed, str(trouble))
    image = context.metadata.refresh()
    for erasure in erasures_of(image):
        if erasure.erasure_id in unflushed:
            flushed = msgspec.structs.replace(erasure, flushed_ms=context.now_ms())
            context.metadata.execute(put_erasure(image, flushed))
    return {}
