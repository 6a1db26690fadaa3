"""Translates the errors of S3 and botocore into the errors of the port.

The important distinction is whether a failed write may have taken effect. A request that was refused (SlowDown, a
conflict, no connection) had no effect; a request whose answer was lost may have had one, so its error is ``uncertain``.

A refusal of the credentials says which ones were used, since botocore finds them in several places.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import botocore.session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
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
_RANGE_OF_COPY = "range specified is not valid for source object"
"""What S3 and MinIO say, under the code InvalidArgument, when a copied range ends behind the end of its source."""

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
    "EntityTooSmall": "every part of an upload except the last must have at least 5 MiB",
}
_MAY_NOT = "allow it to read, write, list and delete in the bucket"
_OF_CREDENTIALS = {
    "AccessDenied": _MAY_NOT,
    "InvalidAccessKeyId": "the store does not know it: correct the access key and its secret",
    "SignatureDoesNotMatch": "correct its secret, or the region",
    "403": f"correct its secret, or {_MAY_NOT}",  # the answer to HEAD has no body, only a status
}
_PROVIDERS = {
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "shared-credentials-file": "the file of AWS credentials (~/.aws/credentials)",
    "config-file": "the file of AWS settings (~/.aws/config)",
}
"""botocore's providers of credentials that need no request, in botocore's order, in words."""
NOT_FOUND = 404
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
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise StoreDenied(
            f"{action.strip()}: no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
            "profile in ~/.aws/credentials; for a public bucket, add anonymous=true to the URL"
        ) from error
    except BotoCoreError as error:
        raise StoreDenied(f"{action}: {error}; check credentials, region and settings") from error


def refused(action: str, response: dict[str, dict[str, object]]) -> SiltstoneError:
    """Returns the port's error for an answer of S3 that contains an ``Error``."""
    code = str(response["Error"].get("Code", ""))
    text = f"{action.strip()}: {code} {response['Error'].get('Message', '')}".rstrip(".")
    if code in _REFUSED_FOR_NOW:
        return StoreTransient(text, uncertain=False)
    if code in _MAY_HAVE_HAPPENED or status_of(response) >= 500:
        return StoreTransient(text)
    if code == "InvalidArgument" and _RANGE_OF_COPY in text.lower():
        code = "InvalidRange"
    if code in _BY_CODE:
        return _BY_CODE[code](text)
    if code == "NoSuchBucket":
        return StoreDenied(f"{text}; {_missing_bucket(str(response['Error'].get('BucketName', '')))}")
    if code in _OF_CREDENTIALS:
        return StoreDenied(f"{text}; the request used {credentials_in_use()}: {_OF_CREDENTIALS[code]}")
    return StoreDenied(f"{text}; {_HINTS.get(code, 'a retry will not help')}")


def status_of(response: dict[str, dict[str, object]]) -> int:
    """Returns the HTTP status of an answer; 0 if it is one of many answers in one."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status if isinstance(status, int) else 0


def missing_bucket(name: str, url: str) -> StoreDenied:
    return StoreDenied(f"there is no bucket {name} ({url}): {_missing_bucket(name)}")


def _missing_bucket(name: str) -> str:
    named = f"the bucket {name}" if name else "the bucket"
    return f"create {named}, which the store does not make by itself, or correct its name in the s3:// URL"


def credentials_in_use() -> str:
    """Returns the access key that botocore uses, and where it found it, in words. An access key is not a secret."""
    providers = botocore.session.Session().get_component("credential_provider")
    for provider, place in _PROVIDERS.items():
        with suppress(BotoCoreError):
            if (found := providers.get_provider(provider).load()) is not None:
                return f"access key {found.access_key} from {place}"
    return "credentials that botocore found elsewhere, such as this machine's role"
