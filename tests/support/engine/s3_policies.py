"""Users of SeaweedFS with IAM policies, which it enforces: a key for each policy, as AWS would give it."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from support.engine.s3_server import BUCKET, ENVIRONMENT, S3Server, s3_client

WRITABLE = "-s3.iam.readOnly=false"
"""The option with which the server lets IAM be changed, at the port of S3."""

KNOWN_SECONDS = 30
Policy = Mapping[str, Any]


class PolicedServer:
    """``server`` was started with WRITABLE. ``keys`` of a policy are those of a user of its own. Only managed policies
    may have each action of S3: those that a user has alone are translated into SeaweedFS's coarser rights."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        access_key, secret = ENVIRONMENT.values()
        self._iam = botocore.session.get_session().create_client(
            "iam",
            region_name="us-east-1",
            endpoint_url=server.endpoint_url,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret,
        )

    def keys(self, name: str, policy: Policy) -> tuple[str, str]:
        """Makes the user, and returns its access key and secret once the server knows them."""
        self._iam.create_user(UserName=name)
        managed = self._iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(policy))
        self._iam.attach_user_policy(UserName=name, PolicyArn=managed["Policy"]["Arn"])
        made = self._iam.create_access_key(UserName=name)["AccessKey"]
        keys = made["AccessKeyId"], made["SecretAccessKey"]
        give_up = time.monotonic() + KNOWN_SECONDS
        while not self._knows(keys):
            assert time.monotonic() < give_up, f"the server does not know the key of {name}"
            time.sleep(0.05)
        return keys

    def _knows(self, keys: tuple[str, str]) -> bool:
        client = self.client(keys)
        try:
            client.list_objects_v2(Bucket=BUCKET, MaxKeys=1)
        except ClientError as failure:
            return failure.response["Error"]["Code"] == "AccessDenied"
        finally:
            client.close()
        return True

    def client(self, keys: tuple[str, str]) -> Any:
        return s3_client(self.server.endpoint_url, keys)


@contextmanager
def acting_by(keys: tuple[str, str]) -> Iterator[None]:
    """This process, and its children, have these keys meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(ENVIRONMENT, keys, strict=True):
            patch.setenv(name, value)
        yield


def placed(policy: Policy, prefix: str) -> Policy:
    """Returns a policy of the documents, which is for ``siltstone/my-store``, for a prefix of the tests' bucket."""
    text = json.dumps(policy)
    assert "arn:aws:s3:::siltstone" in text
    moved = text.replace("arn:aws:s3:::siltstone/my-store/", f"arn:aws:s3:::{BUCKET}/{prefix}/")
    placed: Policy = json.loads(moved.replace('arn:aws:s3:::siltstone"', f'arn:aws:s3:::{BUCKET}"'))
    return placed


def without(policy: Policy, action: str) -> Policy:
    """Returns the policy with one action less."""
    statements = [
        {**each, "Action": [other for other in each["Action"] if other != action]}
        for each in policy["Statement"]
    ]
    assert statements != policy["Statement"], f"{action} is not in the policy"
    return {**policy, "Statement": [each for each in statements if each["Action"]]}
