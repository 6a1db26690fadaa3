"""Translates the errors of S3 and botocore into the errors of the port.

The important distinction is whether a failed write may have taken effect. A request that was refused (SlowDown, a
conflict, no connection) had no effect; a request whose answer was lost may have had one, so its error is ``uncertain``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,
    ReadTimeoutError,
)

from siltstone.model.errors import SiltstoneError
from siltstone.object_store.port import (
    ObjectAlreadyExists,
    ObjectNotFound,
    ObjectTruncated,
    StoreDenied,
    StoreTransient,
    UploadNotFound,
)

_BY_CODE: dict[str, type[SiltstoneError]] = {
    "NoSuchKey": ObjectNotFound,
    "404": ObjectNotFound,  # the answer to HEAD has no body, only a status
    "PreconditionFailed": ObjectAlreadyExists,
    "412": ObjectAlreadyExists,
    "NoSuchUpload": UploadNotFound,
    "InvalidRange": ObjectTruncated,
    "416": ObjectTruncated,
    "InvalidPart": ObjectTruncated,
    "InvalidPartOrder": ObjectTruncated,
}
_REFUSED_FOR_NOW = {
    "ConditionalRequestConflict",
    "OperationAborted",
    "SlowDown",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "503",
    "429",
}
_HINTS = {
    "AccessDenied": "allow these credentials to read, write, list and delete in the bucket",
    "EntityTooSmall": "every part of an upload except the last must have at least 5 MiB",
    "NoSuchBucket": "create the bucket, or correct its name",
    "InvalidAccessKeyId": "check the credentials in the environment",
    "SignatureDoesNotMatch": "check the credentials in the environment and the region",
}
_MAY_HAVE_HAPPENED = {"RequestTimeout", "InternalError"}
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)
_ANSWER_LOST = (HTTPClientError, ReadTimeoutError, IncompleteReadError)


@contextmanager
def s3_errors_translated(action: str) -> Iterator[None]:
    """Raises the port's error in place of botocore's; ``action`` begins its text."""
    try:
        yield
    except ClientError as error:
        raise refused(action, error.response) from error
    except _NEVER_SENT as error:
        raise StoreTransient(f"{action}: {error}", uncertain=False) from error
    except _ANSWER_LOST as error:
        raise StoreTransient(f"{action}: {error}") from error
    except BotoCoreError as error:
        raise StoreDenied(f"{action}: {error}; check credentials, region and settings") from error


def refused(action: str, response: dict[str, dict[str, object]]) -> SiltstoneError:
    """The port's error for an answer of S3 that contains an ``Error``."""
    code = str(response["Error"].get("Code", ""))
    text = f"{action}: {code} {response['Error'].get('Message', '')}"
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _REFUSED_FOR_NOW:
        return StoreTransient(text, uncertain=False)
    if code in _MAY_HAVE_HAPPENED or (isinstance(status, int) and status >= 500):
        return StoreTransient(text)
    if code in _BY_CODE:
        return _BY_CODE[code](text)
    return StoreDenied(f"{text}; {_HINTS.get(code, 'a retry will not help')}")
