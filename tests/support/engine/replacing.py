"""What no caller of a store can do: an object gets other bytes. Tests damage objects this way."""

from siltstone.model.buffers import Buffers
from siltstone.object_store.port import ObjectStore


def replace_object(store: ObjectStore, key: str, buffers: Buffers) -> None:
    store.delete([key])
    store.put(key, buffers)
