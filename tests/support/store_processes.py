"""What tests have other processes do to a store: module-level functions, importable in a spawned process."""

import itertools
import sys

from siltstone.object_store.opening import open_store
from siltstone.object_store.port import MultipartUpload, ObjectAlreadyExists, UploadedPart


def send_part(
    url: str, upload: MultipartUpload, part_number: int, position: int, content: bytes
) -> UploadedPart:
    store = open_store(url)
    try:
        return store.upload_part(upload, part_number, position, [content])
    finally:
        store.close()


def claim(url: str, key: str, content: bytes) -> bool:
    """Whether this process won."""
    store = open_store(url)
    try:
        store.put_if_absent(key, [content])
    except ObjectAlreadyExists:
        return False
    finally:
        store.close()
    return True


def content_of(number: int) -> bytes:
    """Of another size and pattern for each number, so that a mix or a piece is recognised."""
    return number.to_bytes(8, "big") * (1 + number % 997 * 64)


def write_forever(url: str) -> None:
    """Puts, conditional puts and uploads of two parts until killed; says each key once it is acknowledged."""
    store = open_store(url)
    for number in itertools.count():
        content, key = content_of(number), f"{number % 7:02x}/objects/{number:020d}"
        if number % 3 == 0:
            store.put(key, [content[:100], content[100:]])
        elif number % 3 == 1:
            store.put_if_absent(key, [content])
        else:
            upload, half = store.start_multipart(key), len(content) // 2
            parts = [
                store.upload_part(upload, 2, half, [content[half:]]),
                store.upload_part(upload, 1, 0, [content[:half]]),
            ]
            store.complete_multipart(upload, parts[::-1])
        print(key, flush=True)


if __name__ == "__main__":
    write_forever(sys.argv[1])
