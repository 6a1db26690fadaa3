"""Multipart uploads into S3: parts may come from any process, and byte ranges are copied inside the store.

To complete an upload, its parts are listed and the ETags taken from the listing. A part that two attempts of one Spark
task sent therefore counts once, and the attempts need not agree on anything.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.object_store.keys import key_taken, part_missing
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectNotFound,
    UploadedPart,
    UploadNotFound,
)
from siltstone.object_store.s3.errors import s3_errors_translated
from siltstone.object_store.s3.gather_file import GatherFile
from siltstone.object_store.s3.location import S3Location


class S3Uploads:
    """The multipart uploads of one bucket below the location's prefix."""

    def __init__(self, client: Any, location: S3Location) -> None:
        self._client = client
        self._bucket = location.bucket
        self._prefix = location.prefix

    def start(self, key: str) -> MultipartUpload:
        with s3_errors_translated(f"start the upload of {key}"):
            answer = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._prefix + key)
        return MultipartUpload(key, answer["UploadId"])

    def send_part(
        self, upload: MultipartUpload, part_number: int, position: int, buffers: Buffers
    ) -> UploadedPart:
        with s3_errors_translated(f"part {part_number} of {upload.key}"):
            self._client.upload_part(**self._at(upload), PartNumber=part_number, Body=GatherFile(buffers))
        return UploadedPart(part_number, position, total_bytes(buffers))

    def copy_part(
        self, upload: MultipartUpload, part_number: int, position: int, source_key: str, start: int, end: int
    ) -> UploadedPart:
        with s3_errors_translated(f"part {part_number} of {upload.key}, copied from {source_key}"):
            self._client.upload_part_copy(
                **self._at(upload),
                PartNumber=part_number,
                CopySource={"Bucket": self._bucket, "Key": self._prefix + source_key},
                CopySourceRange=f"bytes={start}-{end - 1}",
            )
        return UploadedPart(part_number, position, end - start)

    def complete(self, upload: MultipartUpload, parts: Sequence[UploadedPart], size_bytes: int) -> None:
        try:
            tags = self._tags_by_size(upload)
            chosen = [_chosen(upload, part, tags) for part in parts]
            self._refuse_if_taken(upload)
            with s3_errors_translated(f"complete {upload.key}"):
                self._client.complete_multipart_upload(
                    **self._at(upload), MultipartUpload={"Parts": chosen}, IfNoneMatch="*"
                )
        except UploadNotFound:
            if not self._is_complete(upload, size_bytes):
                raise

    def abort(self, upload: MultipartUpload) -> None:
        try:
            with s3_errors_translated(f"abort {upload.key}"):
                self._client.abort_multipart_upload(**self._at(upload))
        except UploadNotFound:
            return

    def list(self) -> Iterator[MultipartUpload]:
        request = {"Bucket": self._bucket, "Prefix": self._prefix}
        while True:
            with s3_errors_translated("list the uploads"):
                page = self._client.list_multipart_uploads(**request)
            for found in page.get("Uploads", ()):
                yield MultipartUpload(found["Key"].removeprefix(self._prefix), found["UploadId"])
            if not page.get("IsTruncated"):
                return
            request["KeyMarker"] = page["NextKeyMarker"]
            request["UploadIdMarker"] = page.get("NextUploadIdMarker", "")

    def _tags_by_size(self, upload: MultipartUpload) -> dict[tuple[int, int], str]:
        """Returns the ETags of the parts that the store has received, by part number and size."""
        tags: dict[tuple[int, int], str] = {}
        marker: dict[str, int] = {}
        while True:
            with s3_errors_translated(f"list the parts of {upload.key}"):
                page = self._client.list_parts(**self._at(upload), **marker)
            tags |= {(part["PartNumber"], part["Size"]): part["ETag"] for part in page.get("Parts", ())}
            if not page.get("IsTruncated"):
                return tags
            marker = {"PartNumberMarker": page["NextPartNumberMarker"]}

    def _refuse_if_taken(self, upload: MultipartUpload) -> None:
        """Raises ObjectAlreadyExists. Some stores ignore If-None-Match when an upload is completed."""
        if self._size_bytes(upload.key) is not None:
            raise key_taken(upload)

    def _is_complete(self, upload: MultipartUpload, size_bytes: int) -> bool:
        return self._size_bytes(upload.key) == size_bytes

    def _size_bytes(self, key: str) -> int | None:
        """Returns the size of the object at the key; None when there is none."""
        try:
            with s3_errors_translated(f"head {key}"):
                answer = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        except ObjectNotFound:
            return None
        size_bytes: int = answer["ContentLength"]
        return size_bytes

    def _at(self, upload: MultipartUpload) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + upload.key, "UploadId": upload.upload_id}


def _chosen(
    upload: MultipartUpload, part: UploadedPart, tags: dict[tuple[int, int], str]
) -> dict[str, str | int]:
    tag = tags.get((part.part_number, part.size_bytes))
    if tag is None:
        raise part_missing(upload, part.part_number)
    return {"PartNumber": part.part_number, "ETag": tag}
