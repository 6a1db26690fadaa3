"""Credentials that are read again when the store refuses them, so that a rotated key needs no restart.

botocore reads a file of credentials once in the life of a client; only those of a role are renewed. Here a refusal of
the credentials (``RENEWED_AFTER``) has the whole chain of providers read again: environment, profile and files, role.
If it gives other credentials than the request was signed with, the request is signed and sent once more, and all later
ones use them. Otherwise the refusal stands, and its next request asks again.
"""

from threading import Lock
from typing import Any

import botocore.session
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials

RENEWED_AFTER = frozenset({
    "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch",
    "TokenRefreshRequired", "AccessDenied", "403",
})  # fmt: skip
"""Codes of refusals that other credentials may cure. ``403`` is the answer to HEAD, which has no body."""

_SIGNED_WITH = "siltstone_access"


class S3Credentials(Credentials):  # type: ignore[misc]  # botocore has no types
    """The credentials of one client. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: Credentials | None = None
        super().__init__("", "", method="siltstone")
        self.read_again()

    def get_frozen_credentials(self) -> ReadOnlyCredentials | None:
        if self._found is None:
            self.read_again()
        found = self._found
        return found.get_frozen_credentials() if found is not None else None

    def read_again(self) -> None:
        """Reads the chain of providers from its beginning. Credentials of a role are kept: botocore renews them."""
        with self._lock:
            if isinstance(self._found, RefreshableCredentials):
                return
            found = botocore.session.Session().get_credentials()
            if found is not None or self._found is None:
                self._found = found
            if found is not None and not isinstance(found, RefreshableCredentials):
                self.access_key, self.secret_key, self.token = found.access_key, found.secret_key, found.token


class S3Session(botocore.session.Session):  # type: ignore[misc]
    """A session whose client reads its credentials again after a refusal."""

    def __init__(self) -> None:
        super().__init__()
        self._current = S3Credentials()

    def get_credentials(self) -> Credentials:
        return self._current

    def watch(self, client: Any) -> None:
        """Has the requests of the client sent once more after a refusal that other credentials may cure."""
        client.meta.events.register_first("before-sign.s3", self._note)
        client.meta.events.register_first("needs-retry.s3", self._is_to_be_repeated)

    def _note(self, request: Any, **_: Any) -> None:
        request.context[_SIGNED_WITH] = self._current.get_frozen_credentials()

    def _is_to_be_repeated(
        self, response: Any, attempts: int, request_dict: dict[str, Any], **_: Any
    ) -> float | None:
        """Returns 0, for a repetition at once, or nothing."""
        if response is None or attempts > 1:
            return None
        _, answer = response
        if str(answer.get("Error", {}).get("Code", "")) not in RENEWED_AFTER:
            return None
        before = request_dict["context"].get(_SIGNED_WITH)
        self._current.read_again()
        return 0.0 if self._current.get_frozen_credentials() != before else None
