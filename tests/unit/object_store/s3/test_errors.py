from pathlib import Path

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from siltstone.object_store import port
from siltstone.object_store.s3.errors import s3_errors_translated


def answer(code: str, status: int, text: str = "text") -> ClientError:
    response = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Operation")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answer("NoSuchKey", 404), port.ObjectNotFound),
        (answer("404", 404), port.ObjectNotFound),
        (answer("NoSuchBucket", 404), port.StoreDenied),
        (answer("NoSuchUpload", 404), port.UploadNotFound),
        (answer("PreconditionFailed", 412), port.ObjectAlreadyExists),
        (answer("412", 412), port.ObjectAlreadyExists),
        (answer("InvalidRange", 416), port.ObjectTruncated),
        (answer("InvalidPart", 400), port.ObjectTruncated),
        (
            answer("InvalidArgument", 400, "Range specified is not valid for source object"),
            port.ObjectTruncated,
        ),
        (answer("InvalidArgument", 400), port.StoreDenied),
        (answer("AccessDenied", 403), port.StoreDenied),
        (answer("SignatureDoesNotMatch", 403), port.StoreDenied),
        (answer("EntityTooSmall", 400), port.StoreDenied),
        (NoCredentialsError(), port.StoreDenied),
    ],
)
def test_what_will_not_pass(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected, match="put k") as caught, s3_errors_translated("put k"):
        raise error

    assert caught.value.__cause__ is error


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "403"])
def test_refused_credentials_are_named_with_the_place_where_they_were_found(
    code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def text() -> str:
        with pytest.raises(port.StoreDenied) as caught, s3_errors_translated("list "):
            raise answer(code, 403)
        return str(caught.value)

    assert text().startswith(
        f"list: {code} text; the request used credentials that botocore found elsewhere, "
    )
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = AKFILE\naws_secret_access_key = hidden\n"
    )
    assert (
        "the request used access key AKFILE from the file of AWS credentials (~/.aws/credentials): " in text()
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert "the request used access key AKENV from the environment (AWS_ACCESS_KEY_ID): " in text()
    assert "hidden" not in text()
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "access key AKENV" not in text(), "half of a pair is not used"


def test_missing_credentials_say_where_they_are_looked_for() -> None:
    expected = "list: no credentials were found: set AWS_ACCESS_KEY_ID and"
    with pytest.raises(port.StoreDenied, match=expected), s3_errors_translated("list "):
        raise NoCredentialsError()


@pytest.mark.parametrize(
    ("name", "named"), [({"BucketName": "flights"}, "the bucket flights"), ({}, "the bucket")]
)
def test_a_missing_bucket_is_named_and_has_to_be_created(name: dict[str, str], named: str) -> None:
    response = {"Error": {"Code": "NoSuchBucket", "Message": "It does not exist.", **name}}
    with (
        pytest.raises(
            port.StoreDenied, match=f"^list: NoSuchBucket It does not exist; create {named}, which"
        ),
        s3_errors_translated("list "),
    ):
        raise ClientError(response, "ListObjectsV2")


@pytest.mark.parametrize(
    ("error", "uncertain"),
    [
        (answer("SlowDown", 503), False),
        (answer("ServiceUnavailable", 503), False),
        (answer("503", 503), False),
        (answer("TooManyRequests", 429), False),
        (answer("ConditionalRequestConflict", 409), False),
        (answer("InternalError", 500), True),
        (answer("InternalError", 200), True),  # completing an upload can fail after its status has gone out
        (answer("500", 500), True),
        (answer("BadGateway", 502), True),
        (answer("RequestTimeout", 400), True),
        (EndpointConnectionError(endpoint_url="u"), False),
        (ConnectTimeoutError(endpoint_url="u"), False),
        (ReadTimeoutError(endpoint_url="u"), True),
        (ConnectionClosedError(endpoint_url="u"), True),
        (ResponseStreamingError(error="e"), True),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), True),
    ],
)
def test_what_may_pass_and_whether_it_may_have_happened(error: Exception, uncertain: bool) -> None:
    with pytest.raises(port.StoreTransient, match="put k") as caught, s3_errors_translated("put k"):
        raise error

    assert caught.value.uncertain is uncertain
