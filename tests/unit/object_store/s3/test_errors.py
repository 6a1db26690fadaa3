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


def answer(code: str, status: int) -> ClientError:
    response = {"Error": {"Code": code, "Message": "text"}, "ResponseMetadata": {"HTTPStatusCode": status}}
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
