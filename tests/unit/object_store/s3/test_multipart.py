"""Uploads in parts, with a bucket in memory that pages its lists as S3 does."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from siltstone.object_store.port import MultipartUpload, ObjectTruncated, UploadedPart, UploadNotFound
from siltstone.object_store.s3.location import S3Location
from siltstone.object_store.s3.multipart import S3Uploads

KEY = "a5/objects/1"


def failed(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Operation")


class Bucket:
    """A client of botocore with one bucket. Lists have one entry a page. An ETag names a part's number and size."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {"prefix/old": b"0123456789"}
        self.uploads: dict[tuple[str, str], dict[int, bytes]] = {}

    def _parts(self, request: dict[str, Any]) -> dict[int, bytes]:
        assert request["Bucket"] == "bucket"
        if (request["Key"], request["UploadId"]) not in self.uploads:
            raise failed("NoSuchUpload", 404)
        return self.uploads[request["Key"], request["UploadId"]]

    def create_multipart_upload(self, *, Bucket: str, Key: str) -> dict[str, str]:  # noqa: N803
        upload_id = f"u{len(self.uploads)}"
        self.uploads[Key, upload_id] = {}
        return {"UploadId": upload_id}

    def upload_part(self, *, PartNumber: int, Body: Any, **at: str) -> None:  # noqa: N803
        self._parts(at)[PartNumber] = Body.read()

    def upload_part_copy(
        self,
        *,
        PartNumber: int,  # noqa: N803
        CopySource: dict[str, str],  # noqa: N803
        CopySourceRange: str,  # noqa: N803
        **at: str,
    ) -> None:
        assert CopySource["Bucket"] == "bucket"
        first, last = CopySourceRange.removeprefix("bytes=").split("-")
        self._parts(at)[PartNumber] = self.objects[CopySource["Key"]][int(first) : int(last) + 1]

    def list_parts(self, PartNumberMarker: int = 0, **at: str) -> dict[str, Any]:  # noqa: N803
        later = {number: part for number, part in self._parts(at).items() if number > PartNumberMarker}
        if not later:
            return {"IsTruncated": False}
        number = min(later)
        size_bytes = len(later[number])
        return {
            "Parts": [{"PartNumber": number, "Size": size_bytes, "ETag": f"{number}:{size_bytes}"}],
            "IsTruncated": len(later) > 1,
            "NextPartNumberMarker": number,
        }

    def complete_multipart_upload(self, *, MultipartUpload: dict[str, Any], **at: str) -> None:  # noqa: N803
        parts = self._parts(at)
        for part in MultipartUpload["Parts"]:
            number = part["PartNumber"]
            assert part["ETag"] == f"{number}:{len(parts[number])}"
        self.objects[at["Key"]] = b"".join(parts[part["PartNumber"]] for part in MultipartUpload["Parts"])
        del self.uploads[at["Key"], at["UploadId"]]

    def abort_multipart_upload(self, **at: str) -> None:
        self._parts(at)
        del self.uploads[at["Key"], at["UploadId"]]

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, int]:  # noqa: N803
        if Key not in self.objects:
            raise failed("404", 404)
        return {"ContentLength": len(self.objects[Key])}

    def list_multipart_uploads(
        self,
        *,
        Bucket: str,  # noqa: N803
        Prefix: str,  # noqa: N803
        KeyMarker: str = "",  # noqa: N803
        UploadIdMarker: str = "",  # noqa: N803
    ) -> dict[str, Any]:
        found = sorted(
            each for each in self.uploads if each[0].startswith(Prefix) and each > (KeyMarker, UploadIdMarker)
        )
        if not found:
            return {}
        key, upload_id = found[0]
        return {
            "Uploads": [{"Key": key, "UploadId": upload_id}],
            "IsTruncated": len(found) > 1,
            "NextKeyMarker": key,
            "NextUploadIdMarker": upload_id,
        }


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def uploads(bucket: Bucket) -> S3Uploads:
    return S3Uploads(bucket, S3Location.parse("s3://bucket/prefix?region=us-east-1"))


def test_parts_that_were_sent_and_copied_make_an_object(bucket: Bucket, uploads: S3Uploads) -> None:
    upload = uploads.start(KEY)
    assert upload == MultipartUpload(KEY, "u0")
    parts = [
        uploads.send_part(upload, 1, 0, [b"ab", b"c"]),
        uploads.copy_part(upload, 2, 3, "old", 2, 6),
        uploads.send_part(upload, 3, 7, [b"z"]),
    ]
    assert parts == [UploadedPart(1, 0, 3), UploadedPart(2, 3, 4), UploadedPart(3, 7, 1)]
    uploads.complete(upload, parts, 8)
    assert bucket.objects[f"prefix/{KEY}"] == b"abc2345z"


@pytest.mark.parametrize("missing", [UploadedPart(3, 7, 1), UploadedPart(1, 0, 4)])
def test_a_part_that_is_missing_or_of_another_size_is_not_made_up(
    uploads: S3Uploads, missing: UploadedPart
) -> None:
    upload = uploads.start(KEY)
    uploads.send_part(upload, 1, 0, [b"abc"])
    with pytest.raises(ObjectTruncated, match=f"lacks part {missing.part_number}"):
        uploads.complete(upload, [missing], 4)


def test_completing_again_succeeds_if_the_object_is_there_in_its_size(uploads: S3Uploads) -> None:
    upload = uploads.start(KEY)
    parts = [uploads.send_part(upload, 1, 0, [b"abc"])]
    uploads.complete(upload, parts, 3)
    uploads.complete(upload, parts, 3)
    with pytest.raises(UploadNotFound):
        uploads.complete(upload, parts, 4)


def test_an_upload_that_was_aborted_cannot_be_completed(uploads: S3Uploads) -> None:
    upload = uploads.start(KEY)
    parts = [uploads.send_part(upload, 1, 0, [b"abc"])]
    uploads.abort(upload)
    uploads.abort(upload)
    assert [*uploads.list()] == []
    with pytest.raises(UploadNotFound):
        uploads.complete(upload, parts, 3)


def test_every_page_of_the_uploads_below_the_prefix_is_listed(bucket: Bucket, uploads: S3Uploads) -> None:
    bucket.create_multipart_upload(Bucket="bucket", Key="elsewhere/1")
    begun = [uploads.start(key) for key in ("k/1", "k/1", "k/2", "k/3")]
    assert [*uploads.list()] == begun
