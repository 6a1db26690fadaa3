"""The stores a task uses, opened by URL once a process: a worker runs many tasks, and a client costs connections."""

from threading import Lock

from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectStore

_opened: dict[str, ObjectStore] = {}
_lock = Lock()


def store_at(url: str) -> ObjectStore:
    """Stays open as long as the process. Raises what ``open_store`` does."""
    with _lock:
        store = _opened.get(url)
        if store is None:
            store = _opened[url] = open_store(url)
        return store
