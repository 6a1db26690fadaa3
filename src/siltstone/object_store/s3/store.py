"""``S3Store`` is the adapter for a bucket of S3 or a compatible store, through botocore's low-level client.

A call makes one attempt: botocore's own retries are off, because ``retrying`` retries and tracks which writes may have
taken effect. A put has the CRC-32C of its body, which the store verifies: otherwise SeaweedFS stores an empty object
when a connection ends between the head of a put and its body. No other checksums or signatures of bodies are made: TLS
protects them on the way, the CRC-32C of every block at rest. Only ``opening`` imports this module, as botocore is
optional. Read ``s3.errors`` for the failures, ``s3.multipart`` for uploads.
"""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffers
from siltstone.model.limits import SECOND_MS, STORE_ANSWER_MS_MAX
from siltstone.object_store.keys import (
    checked_batch,
    checked_key,
    checked_part_number,
    put_once,
    size_of_parts,
)
from siltstone.object_store.port import (
    InvalidStoreUrl,
    MultipartUpload,
    ObjectNotFound,
    ObjectSummary,
    ObjectTruncated,
    StoreDenied,
    UploadedPart,
    cut_apart,
)
from siltstone.object_store.s3.credentials import S3Session
from siltstone.object_store.s3.errors import (
    NOT_FOUND,
    missing_bucket,
    refused,
    s3_errors_translated,
    status_of,
)
from siltstone.object_store.s3.gather_file import body_of
from siltstone.object_store.s3.location import S3Location
from siltstone.object_store.s3.multipart import S3Uploads

CONNECT_TIMEOUT_SECONDS = 5


class S3Store:
    """A bucket of S3. Safe for threads. A forked process must open the URL again and not use its parent's store."""

    def __init__(
        self, location: S3Location, connections_max: int, answer_ms_max: int = STORE_ANSWER_MS_MAX
    ) -> None:
        self._location = location
        self._client = _client(location, connections_max, answer_ms_max)
        self._uploads = S3Uploads(self._client, location)
        self._bucket_was_there = False

    @property
    def url(self) -> str:
        return self._location.url

    def put(self, key: str, buffers: Buffers) -> None:
        put_once(self, key, buffers)

    def put_if_absent(self, key: str, buffers: Buffers) -> None:
        checksum = crc32c(buffers).to_bytes(4, "big")
        with s3_errors_translated(f"put {key} if absent"):
            self._client.put_object(
                **self._at(key),
                Body=body_of(buffers),
                IfNoneMatch="*",
                ChecksumCRC32C=base64.b64encode(checksum).decode(),
            )

    def get_range(self, key: str, start: int, end: int) -> bytes:
        assert 0 <= start <= end, f"no range: [{start}, {end})"
        if start == end:
            return self._empty_range(key, start)
        with s3_errors_translated(f"get {key} [{start}, {end})"):
            answer = self._client.get_object(**self._at(key), Range=f"bytes={start}-{end - 1}")
            content: bytes = answer["Body"].read()
        if len(content) < end - start:
            raise ObjectTruncated(
                f"object {key} ends at {start + len(content)}, but [{start}, {end}) was requested"
            )
        if len(content) > end - start:
            raise StoreDenied(f"{self.url} ignores ranges and returned object {key} whole; use another store")
        return content

    def get_pieces(self, key: str, start: int, ends: Sequence[int]) -> list[bytes]:
        return cut_apart(self.get_range(key, start, ends[-1]), start, ends)

    def head(self, key: str) -> ObjectSummary:
        try:
            with s3_errors_translated(f"head {key}"):
                answer = self._client.head_object(**self._at(key))
        except ObjectNotFound:
            self._refuse_missing_bucket()
            raise
        return ObjectSummary(key, answer["ContentLength"], _epoch_ms(answer["LastModified"]))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        own = self._location.prefix
        request = {"Bucket": self._location.bucket, "Prefix": own + prefix}
        if after:
            request["StartAfter"] = own + after
        while True:
            with s3_errors_translated(f"list {prefix}"):
                page = self._client.list_objects_v2(**request)
            for found in page.get("Contents", ()):
                key = found["Key"].removeprefix(own)
                yield ObjectSummary(key, found["Size"], _epoch_ms(found["LastModified"]))
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, keys: Sequence[str]) -> None:
        named = [{"Key": self._location.prefix + key} for key in checked_batch(keys)]
        if not named:
            return
        with s3_errors_translated(f"delete {len(keys)} keys"):
            answer = self._client.delete_objects(
                Bucket=self._location.bucket, Delete={"Objects": named, "Quiet": True}
            )
        failures = [each for each in answer.get("Errors", ()) if each.get("Code") != "NoSuchKey"]
        if failures:
            first = failures[0]
            raise refused(
                f"delete {len(failures)} of {len(keys)} keys, such as {first.get('Key')}", {"Error": first}
            )

    def start_multipart(self, key: str) -> MultipartUpload:
        return self._uploads.start(checked_key(key))

    def upload_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        return self._uploads.send_part(upload, checked_part_number(part_number), position, buffers)

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        assert 0 <= start < end, f"no range to copy: [{start}, {end})"
        number = checked_part_number(part_number)
        return self._uploads.copy_part(upload, number, position, checked_key(source_key), start, end)

    def complete_multipart(self, upload: MultipartUpload, parts: Sequence[UploadedPart]) -> None:
        self._uploads.complete(upload, parts, size_of_parts(upload, parts))

    def abort_multipart(self, upload: MultipartUpload) -> None:
        self._uploads.abort(upload)

    def list_multipart(self) -> Iterator[MultipartUpload]:
        return self._uploads.list()

    def close(self) -> None:
        self._client.close()

    def _refuse_missing_bucket(self) -> None:
        """Raises StoreDenied when the bucket does not exist: the answer to HEAD of an object is a 404 without a reason
        then, too. Checks until there is a bucket; a bucket that is deleted later is reported by the answers to other
        requests."""
        if self._bucket_was_there:
            return
        try:
            self._client.head_bucket(Bucket=self._location.bucket)
        except ClientError as error:
            if status_of(error.response) == NOT_FOUND:
                raise missing_bucket(self._location.bucket, self.url) from error
        except BotoCoreError:
            return  # the first answer counts
        self._bucket_was_there = True

    def _empty_range(self, key: str, position: int) -> bytes:
        """Checks the object's size and returns no bytes, as HTTP has no empty range. Raises ObjectNotFound,
        ObjectTruncated."""
        size_bytes = self.head(key).size_bytes
        if position > size_bytes:
            raise ObjectTruncated(
                f"object {key} has {size_bytes} bytes, but bytes up to {position} were requested"
            )
        return b""

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._location.bucket, "Key": self._location.prefix + checked_key(key)}


def _client(location: S3Location, connections_max: int, answer_ms_max: int) -> Any:
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=answer_ms_max / SECOND_MS,
        max_pool_connections=connections_max,
        tcp_keepalive=True,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": location.addressing_style, "payload_signing_enabled": False},
        signature_version=UNSIGNED if location.anonymous else None,
    )
    with s3_errors_translated(f"open {location.url}"):
        try:
            session = S3Session()
            client = session.create_client(
                "s3", region_name=location.region, endpoint_url=location.endpoint_url, config=config
            )
        except ValueError as failure:  # botocore checks the endpoint, and raises no error of its own
            raise InvalidStoreUrl(
                f"{location.url}: {failure}; an endpoint is an address such as http://127.0.0.1:8333"
            ) from failure
        if not location.anonymous:
            session.watch(client)
        return client


def _epoch_ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
