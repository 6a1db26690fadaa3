"""The policies of docs/authorization.md and docs/s3.md, given to users of SeaweedFS, which enforces them: brokers,
maintenance and readers work with theirs, may do nothing else, and fail with one action less."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Producer

import siltstone
from siltstone.model.objects import object_key
from siltstone.object_store.metadata_mark import ID_STEP, MARKS_PREFIX
from siltstone.object_store.port import StoreDenied
from support.engine.s3_policies import WRITABLE, PolicedServer, Policy, acting_by, placed, without
from support.engine.s3_server import BUCKET, ENVIRONMENT, running_s3_server
from support.kafka.quiet_client import QUIET
from support.pages.documents import ROOT, blocks
from support.processes.cli import Outcome, run

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3-policies"), pytest.mark.timeout(600)]

BROKER, READER = map(json.loads, blocks(ROOT / "docs" / "authorization.md", "json"))
(MAINTENANCE,) = map(json.loads, blocks(ROOT / "docs" / "s3.md", "json"))
ROOT_KEYS = tuple(ENVIRONMENT.values())
OBJECTS = ID_STEP + 3
"""So many objects make a broker write another mark of its metadata, and delete the one before."""

IMPATIENT = {"engine.close_time_limit_ms": "2s", "retry.attempts_max": "2"}
IN_THE_BUCKET = {"engine.wal.location": "bucket:0", "engine.wal.puts_per_hour_max": "180000"}
NOT_ASKED = {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}
"""SeaweedFS 4.48 lets everybody do these who has a policy."""


def actions(policy: Policy) -> list[str]:
    return [action for statement in policy["Statement"] for action in statement["Action"]]


@pytest.fixture(scope="module")
def policed() -> Iterator[PolicedServer]:
    with running_s3_server(WRITABLE) as server:
        yield PolicedServer(server)


class Place:
    """A store of its own, at a prefix of the bucket."""

    def __init__(self, policed: PolicedServer, folder: Path) -> None:
        self._policed = policed
        self._folder = folder / "store"
        self._prefix = folder.name
        self.url = policed.server.bucket_url(BUCKET, self._prefix)
        self._users = 0

    def keys(self, policy: Policy) -> tuple[str, str]:
        self._users += 1
        return self._policed.keys(f"{self._prefix}-{self._users}", placed(policy, self._prefix))

    def client(self, keys: tuple[str, ...]) -> Any:
        return self._policed.client(keys)

    def broker(self, keys: tuple[str, ...], objects: int = OBJECTS, **settings: str) -> None:
        """A broker's life: it writes ``objects``, starts again, and reads all from the bucket."""
        given = {"buckets.0": self.url, **IMPATIENT, **settings}
        values = [b"%d" % number for number in range(objects)]
        with acting_by(keys):
            with siltstone.Broker(self._folder, settings=given) as broker:
                broker.create_topic("t")
                producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
                for value in values:
                    producer.produce("t", value)
                    assert producer.flush(60) == 0
                    broker.flush()
            with siltstone.Broker(self._folder, settings=given) as broker:
                assert [record.value for record in broker.records("t")] == values

    def rows(self, keys: tuple[str, ...]) -> int:
        with acting_by(keys), siltstone.scan("t", store=self._folder) as found:
            return sum(batch.num_rows for batch in found.batches())

    def maintained(self, keys: tuple[str, ...]) -> Outcome:
        """Compacts, aborts an upload that a driver has left, and checks; the first command that fails, or the last."""
        done = Outcome(0, "", "")
        with acting_by(keys):
            for words in (
                "maintain run --runner in-process --force",
                "maintain sweep --grace-period 0ms",
                "check",
            ):
                done = run(*words.split(), "--store", self._folder, "--bucket", self.url)
                if done.status:
                    break
        return done

    def names(self, below: str = "") -> list[str]:
        listed = self.client(ROOT_KEYS).list_objects_v2(Bucket=BUCKET, Prefix=f"{self._prefix}/{below}")
        return [each["Key"] for each in listed.get("Contents", ())]

    def uploads(self) -> list[str]:
        listed = self.client(ROOT_KEYS).list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self._prefix}/")
        return [each["Key"] for each in listed.get("Uploads", ())]

    def leave_an_upload(self) -> None:
        key = f"{self._prefix}/{object_key(1)}"
        self.client(ROOT_KEYS).create_multipart_upload(Bucket=BUCKET, Key=key)

    def refused(self, keys: tuple[str, ...], wanted: Sequence[str]) -> None:
        """These requests are refused, at an object that is there."""
        client, key = self.client(keys), self.names()[0]
        requests: dict[str, dict[str, Any]] = {
            "put_object": {"Body": b""}, "delete_object": {}, "create_multipart_upload": {}, "get_object": {},
        }  # fmt: skip
        for name in wanted:
            with pytest.raises(ClientError, match="AccessDenied"):
                getattr(client, name)(Bucket=BUCKET, Key=key, **requests[name])


@pytest.fixture
def place(policed: PolicedServer, tmp_path: Path) -> Place:
    return Place(policed, tmp_path)


@pytest.mark.nightly(tried="policies")
@pytest.mark.parametrize("settings", [{}, IN_THE_BUCKET], ids=["log-in-a-file", "log-in-the-bucket"])
def test_a_broker_lives_by_its_policy_and_can_delete_no_object(
    place: Place, settings: dict[str, str]
) -> None:
    keys = place.keys(BROKER)
    place.broker(keys, **settings)
    assert len(place.names(MARKS_PREFIX)) <= 2, "it has deleted the older marks"
    if not settings:
        place.refused(keys, ["delete_object"])
    client = place.client(keys)
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Bucket=BUCKET, Key="another-store/x", Body=b"")


@pytest.mark.nightly(tried="policies")
@pytest.mark.parametrize("action", actions(BROKER))
def test_a_broker_with_one_action_less(place: Place, action: str, caplog: pytest.LogCaptureFixture) -> None:
    keys = place.keys(without(BROKER, action))
    if action != "s3:DeleteObject":
        with pytest.raises(StoreDenied):
            place.broker(keys)
        return
    place.broker(keys)
    assert f"/{MARKS_PREFIX}" in caplog.text and "AccessDenied" in caplog.text
    assert len(place.names(MARKS_PREFIX)) > 2, "marks gather"


@pytest.mark.nightly(tried="policies")
def test_a_reader_scans_and_is_refused_all_that_writes(place: Place) -> None:
    place.broker(ROOT_KEYS, 4)
    keys = place.keys(READER)
    assert place.rows(keys) == 4
    place.refused(keys, ["put_object", "delete_object", "create_multipart_upload"])
    without_get = place.keys(without(READER, "s3:GetObject"))
    place.refused(without_get, ["get_object"])
    with pytest.raises(StoreDenied, match="403"):
        place.rows(without_get)


@pytest.mark.nightly(tried="policies")
def test_a_reader_lists_nothing_while_nothing_is_missing(place: Place) -> None:
    """The right to list is for S3's answer to a request for an object that is not there. SeaweedFS gives that to
    everybody, so the request of the policy's table is made here in the place of a scan."""
    place.broker(ROOT_KEYS, 4)
    keys = place.keys(without(READER, "s3:ListBucket"))
    assert place.rows(keys) == 4
    with pytest.raises(ClientError, match="AccessDenied"):
        place.client(keys).list_objects_v2(Bucket=BUCKET)
    place.client(place.keys(READER)).head_bucket(Bucket=BUCKET)


@pytest.mark.nightly(tried="policies")
def test_maintenance_compacts_by_its_policy(place: Place) -> None:
    place.broker(ROOT_KEYS, 4)
    place.leave_an_upload()
    before = place.names()
    done = place.maintained(place.keys(MAINTENANCE))
    assert done.status == 0, done
    assert len(place.names()) < len(before) and place.uploads() == []


@pytest.mark.nightly(tried="policies")
@pytest.mark.parametrize("action", actions(MAINTENANCE))
def test_maintenance_with_one_action_less(place: Place, action: str) -> None:
    place.broker(ROOT_KEYS, 4)
    place.leave_an_upload()
    done = place.maintained(place.keys(without(MAINTENANCE, action)))
    if action in NOT_ASKED:
        assert done.status == 0 and place.uploads() == [], (
            "the server asks for it now: take it out of NOT_ASKED"
        )
        return
    assert done.status != 0
    assert "AccessDenied" in done.out + done.err or "403" in done.out + done.err
