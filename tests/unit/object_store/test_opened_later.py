import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.opened_later import StoreOpenedLater
from siltstone.object_store.port import ObjectStore, StoreTransient
from siltstone.runtime.clock import ManualClock


def test_an_opening_that_fails_is_a_request_that_fails_and_the_next_one_opens() -> None:
    openings: list[str] = []
    opened = MemoryStore(ManualClock())

    def open_adapter() -> ObjectStore:
        openings.append("opening")
        if len(openings) == 1:
            raise StoreTransient("the disk is not mounted")
        return opened

    store = StoreOpenedLater("memory:later", open_adapter)
    assert store.url == "memory:later" and openings == []
    with pytest.raises(StoreTransient):
        store.put("a", [b"1"])
    store.put("a", [b"1"])
    assert store.get_range("a", 0, 1) == b"1" and store.head("a").size_bytes == 1
    assert len(openings) == 2


def test_every_request_reaches_the_adapter() -> None:
    store = StoreOpenedLater("memory:later", lambda: MemoryStore(ManualClock()))
    store.put_if_absent("a", [b"12"])
    upload = store.start_multipart("b")
    assert list(store.list_multipart()) == [upload]
    parts = [store.upload_part(upload, 1, 0, [b"0"]), store.copy_part(upload, 2, 1, "a", 0, 2)]
    store.complete_multipart(upload, parts)
    assert store.get_range("b", 0, 3) == b"012"
    store.abort_multipart(store.start_multipart("c"))
    store.delete(["a"])
    assert [each.key for each in store.list()] == ["b"]
    store.close()


def test_one_that_was_never_opened_is_closed_without_opening() -> None:
    def refuse() -> ObjectStore:
        raise AssertionError("opened")

    StoreOpenedLater("memory:later", refuse).close()
