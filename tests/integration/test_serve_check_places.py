"""TL17: ``serve --check`` with PostgreSQL and S3 that answer, that refuse its password or key, and that are silent."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from support.broker.broker_process import BrokerProcess
from support.engine.s3_server import S3Server
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.cli import run
from support.processes.cut_proxy import CutProxy

pytestmark = [pytest.mark.s3, pytest.mark.postgres, pytest.mark.xdist_group("s3"), pytest.mark.timeout(300)]

PASSWORD = "pl4nted-pa55word"
SECONDS_MAX = 30.0
"""A place that does not answer is given up after ten seconds; a busy machine takes longer."""


class Places(NamedTuple):
    """PostgreSQL that wants a password, and a bucket, each behind a proxy."""

    postgres: PostgresServer
    passwords: Path
    to_metadata: CutProxy
    to_bucket: CutProxy
    options: tuple[str, ...]

    def without_proxies(self) -> "Places":
        """libpq asks whether a server is there with the GIL held, which a proxy of this process needs."""
        near = str(self.to_metadata.port), str(self.postgres.port)
        return self._replace(options=tuple(each.replace(*near) for each in self.options))

    def knows(self, password: str) -> None:
        self.passwords.write_text(f"*:*:*:siltstone:{password}\n")
        self.passwords.chmod(0o600)


@pytest.fixture
def places(tmp_path: Path, s3_server: S3Server) -> Iterator[Places]:
    with running_postgres_server() as server, ExitStack() as opened:
        server.sql(f"CREATE ROLE siltstone LOGIN PASSWORD '{PASSWORD}'")
        server.sql("GRANT CREATE ON DATABASE postgres TO siltstone")
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all siltstone 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.sql("SELECT pg_reload_conf()")
        proxies = [CutProxy(server.port), CutProxy(int(s3_server.endpoint_url.rpartition(":")[2]))]
        for proxy in proxies:
            opened.callback(proxy.close)
        url = s3_server.new_url().replace(s3_server.endpoint_url.rpartition(":")[2], str(proxies[1].port))
        passwords = tmp_path / "passwords"
        metadata = f"{server.tcp_url('checked', port=proxies[0].port, user='siltstone')}&passfile={passwords}"
        made = Places(server, passwords, *proxies, ("--metadata", metadata, "--bucket", url))
        made.knows(PASSWORD)
        yield made


class Checked(NamedTuple):
    """How the check ended, how long it took, and the line about each place."""

    status: int
    seconds: float
    metadata: str
    bucket: str


def checked(folder: Path, places: Places) -> Checked:
    begun = time.monotonic()
    done = run("serve", "--check", "--store", folder, "--listener", "127.0.0.1:0", *places.options)
    assert not done.err and PASSWORD not in done.out
    found = {}
    for line in done.out.splitlines():
        outcome, what = line.split(maxsplit=1)
        found[what.split(":")[0]] = f"{outcome} {what.partition(': ')[2]}"
    return Checked(
        done.status, time.monotonic() - begun, found["metadata"], found.get("bucket 0", "not asked")
    )


def test_tl17_places_that_answer(tmp_path: Path, places: Places) -> None:
    """The store is not there, then it is served, then it has ended: nothing of it is written by the check."""
    folder = tmp_path / "store"
    before = checked(folder, places)
    assert before.status == 0 and not folder.exists()
    assert (
        before.metadata.startswith("ok ")
        and "is not there yet: the start makes a new store" in before.metadata
    )
    assert before.bucket.startswith("ok ") and before.bucket.endswith("is free for this store")
    assert places.postgres.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'checked'") == []
    with BrokerProcess(folder, options=places.options) as broker:
        beside = checked(folder, places)
        assert broker.stop() == 0
    after = checked(folder, places)
    for each in (beside, after):
        assert each.status == 0
        assert each.metadata.startswith("ok ") and "is at version" in each.metadata
        assert each.bucket.startswith("ok ") and each.bucket.endswith("is this store's")
    assert checked(folder, places) == after._replace(seconds=pytest.approx(0, abs=SECONDS_MAX))


def test_tl17_places_that_refuse_the_password_or_the_key(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    places.knows("another")
    refused = checked(folder, places.without_proxies())
    assert refused.status == 2
    assert refused.metadata.startswith("refused ") and 'failed for user "siltstone"' in refused.metadata
    assert "check the URL, the password (~/.pgpass, PGPASSWORD)" in refused.metadata
    assert refused.bucket == "not asked", "nobody can say whether it is this store's"
    places.knows(PASSWORD)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    refused = checked(folder, places)
    assert refused.status == 2 and refused.metadata.startswith("ok ")
    assert refused.bucket.startswith("refused ") and "403 Forbidden" in refused.bucket


def test_tl17_places_that_are_silent_or_gone_are_away_and_the_check_ends_in_time(
    tmp_path: Path, places: Places
) -> None:
    folder = tmp_path / "store"
    places.to_bucket.cut()
    silent = checked(folder, places)
    assert (silent.status, silent.metadata[:3]) == (1, "ok ")
    assert silent.bucket.startswith("away ") and "Read timeout" in silent.bucket
    places.to_metadata.cut()
    both = checked(folder, places)
    assert both.status == 1 and both.metadata.startswith("away ") and both.bucket == "not asked"
    places.to_metadata.mend()
    places.postgres.kill()
    gone = checked(folder, places)
    assert gone.status == 1 and gone.metadata.startswith("away ")
    assert max(silent.seconds, both.seconds, gone.seconds) < SECONDS_MAX
