"""Replaces the bytes of an object, which no caller of a store can do. Tests damage objects in this way."""

from siltstone.model.buffers import Buffers
from siltstone.object_store.port import ObjectStore


def replace_object(store: ObjectStore, key: str, buffers: Buffers) -> None:
    store.delete([key])
    store.put(key, buffers)
