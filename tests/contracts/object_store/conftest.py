"""The adapters that the one behaviour suite runs over."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from siltstone.object_store.faults import BucketFaults, FaultBucket
from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.runtime.randomness import seeded_randomness, system_randomness
from support.engine.s3_server import S3Server

SERVERS = [
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("minio", marks=[pytest.mark.s3, pytest.mark.nightly, pytest.mark.xdist_group("minio")]),
]
ADAPTERS = ["memory", "folder", "retrying", "faults", *SERVERS]

S3_PAGE_KEYS = 100


@pytest.fixture(params=ADAPTERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty bucket, without retries so that what an adapter does is what is seen; ``retrying`` adds them."""
    opened = _open(request, tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=["folder", *SERVERS])
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty bucket that other processes can open by its URL."""
    opened = _open(request, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def many_keys(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """More than one page of a listing. On S3, where each put is a request, pages are made shorter."""
    if not store.url.startswith("s3:"):
        return 2_100
    client = cast(Any, store)._client
    monkeypatch.setattr(client, "list_objects_v2", partial(client.list_objects_v2, MaxKeys=S3_PAGE_KEYS))
    return S3_PAGE_KEYS + 10


def _open(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match request.param:
        case "memory":
            return MemoryStore(SystemClock())
        case "faults":
            return FaultBucket(MemoryStore(SystemClock()), BucketFaults(), ManualClock())
        case "folder":
            return FolderStore(tmp_path / "bucket", SystemClock(), system_randomness())
        case "retrying":
            return RetryingStore(
                MemoryStore(SystemClock()), ManualClock(), seeded_randomness(0), RetrySettings()
            )
    return _open_s3(_server(request))


def _server(request: pytest.FixtureRequest) -> S3Server:
    if request.param == "minio":
        request.getfixturevalue("record_tried")("tests of the contract on MinIO", 1)
    server: S3Server = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> S3Server:
    return _server(request)


def _open_s3(server: S3Server) -> ObjectStore:
    from siltstone.object_store.s3.location import S3Location
    from siltstone.object_store.s3.store import S3Store

    return S3Store(S3Location.parse(server.new_url()), connections_max=16)
