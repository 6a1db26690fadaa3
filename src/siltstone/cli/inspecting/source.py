"""Finds the object that was named by an id, a key, a file or a URL.

A file or a URL needs no store, so a copy of an object can be inspected wherever it is.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from siltstone.cli.store_options import StoreChoice
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.opening import open_store
from siltstone.offline.opening.store import Store


class ObjectUnknown(InvalidRequest):
    """The name is no object of the store, no file and no URL of an object."""


class ObjectPlace(msgspec.Struct, frozen=True):
    """``read(start, end)``: reads bytes of the object. ``metadata``: None if the object was not found through a
    store."""

    place: str
    size_bytes: int
    read: Callable[[int, int], bytes]
    metadata: ObjectMetadata | None = None


def find_object(name: str, choice: StoreChoice, opened: ExitStack) -> ObjectPlace:
    """Registers in ``opened`` what the caller must close afterwards. Raises ObjectUnknown, ObjectNotFound,
    StoreNotFound."""
    scheme = urlsplit(name).scheme
    if scheme == "file":
        return _of_file(Path(unquote(urlsplit(name).path)))
    if scheme == "s3":
        return _of_url(name, opened)
    if not _is_object_id(name) and Path(name).is_file():
        return _of_file(Path(name))
    store = opened.enter_context(choice.open())
    return _of_store(name, store)


def _is_object_id(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _of_file(path: Path) -> ObjectPlace:
    if not path.is_file():
        raise ObjectUnknown(f"there is no file {path}")

    def read(start: int, end: int) -> bytes:
        with path.open("rb") as file:
            return os.pread(file.fileno(), end - start, start)

    return ObjectPlace(str(path), path.stat().st_size, read)


def _of_url(url: str, opened: ExitStack) -> ObjectPlace:
    """Takes the last part of the path as the key, and everything before it as the bucket and its prefix."""
    parts = urlsplit(url)
    bucket, _, key = parts.path.rpartition("/")
    if not key:
        raise ObjectUnknown(f"{url} names a bucket, not an object: add its key")
    store = open_store(urlunsplit(parts._replace(path=bucket)))
    opened.callback(store.close)
    return ObjectPlace(url, store.head(key).size_bytes, lambda start, end: store.get_range(key, start, end))


def _of_store(name: str, store: Store) -> ObjectPlace:
    image = store.metadata.image
    object_id = int(name) if _is_object_id(name) else object_id_of_key(name)
    metadata = image.objects.get(object_id) if object_id is not None else None
    if object_id is None:
        raise ObjectUnknown(f"{name} is neither an object id, nor a key of this store, nor a file")
    if metadata is None:
        raise ObjectUnknown(_unknown_id(object_id, image, store))
    key = object_key(object_id)
    bucket = store.buckets.store(metadata.bucket_id)
    size_bytes = (
        metadata.size_bytes if metadata.state is ObjectState.COMMITTED else bucket.head(key).size_bytes
    )
    return ObjectPlace(
        f"{bucket.url.rstrip('/')}/{key}",
        size_bytes,
        lambda start, end: bucket.get_range(key, start, end),
        metadata,
    )


def _unknown_id(object_id: int, image: MetadataImage, store: Store) -> str:
    known = sorted(image.objects)
    there_are = f"it has {len(known)}, from {known[0]} to {known[-1]}" if known else "it has none"
    return f"the store at {store.settings.folder} has no object {object_id}: {there_are}"
