"""docs/s3.md is true: its blocks are run against SeaweedFS, its requests are the source's, its costs are counted."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import botocore.session
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.object_store.metadata_mark import ID_STEP
from siltstone.object_store.retrying import StoreStatistics
from siltstone.server.kafka_node import KafkaNode
from siltstone.server.settings.node import load_node_settings
from support.engine.s3_server import BUCKET, ENVIRONMENT, S3Server, running_s3_server
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.ports import free_port
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3-page"), pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "s3.md"
_, SERVE, COMMANDS, _, _ = blocks(PAGE, "sh")
(SETTINGS,) = blocks(PAGE, "toml")
(POLICY,) = blocks(PAGE, "json")
RUN = [SERVE, COMMANDS, SETTINGS, POLICY]
ENDPOINT = "http://127.0.0.1:8333"
ADAPTER = ROOT / "src" / "siltstone" / "object_store" / "s3"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return BareEnvironment(tmp_path_factory.mktemp("bare"))


@contextmanager
def serving(bare: BareEnvironment, line: str, folder: Path) -> Iterator[str]:
    with subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=bare.variables(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield re.search(r"ready at (\S+)", process.stdout.readline())[1]
        finally:
            process.terminate()
            assert process.wait(60) == 0


def keys(server: S3Server, bucket: str, prefix: str) -> list[str]:
    client = botocore.session.get_session().create_client(
        "s3", region_name="us-east-1", endpoint_url=server.endpoint_url
    )
    return [each["Key"] for each in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ())]


@pytest.mark.nightly
def test_the_blocks_work_on_minio(
    minio_server: S3Server, bare: BareEnvironment, tmp_path: Path, record_tried: RecordTried
) -> None:
    blocks_work(minio_server, bare, tmp_path)
    record_tried("pages on MinIO", 1)


@pytest.mark.nightly(tried="pages")
def test_the_blocks_work(s3_server: S3Server, bare: BareEnvironment, tmp_path: Path) -> None:
    blocks_work(s3_server, bare, tmp_path)


def blocks_work(s3_server: S3Server, bare: BareEnvironment, tmp_path: Path) -> None:
    export, serve = SERVE.splitlines()
    assert export.split()[1:] == [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    assert serve.count("s3://siltstone/") == 1 and ENDPOINT in serve
    prefix = f"page-{tmp_path.name}"

    def here(text: str) -> str:
        placed = text.replace(ENDPOINT, s3_server.endpoint_url)
        return placed.replace("s3://siltstone/my-store", f"s3://{BUCKET}/{prefix}")

    listener = f"--listener 127.0.0.1:{free_port()}"
    with serving(bare, f"{export}; exec {here(serve)} {listener}", tmp_path) as address:
        for line in COMMANDS.splitlines():
            done = bare.run(line, tmp_path, SILTSTONE_BOOTSTRAP=address, **ENVIRONMENT)
            assert done.returncode == 0, done
        assert done.stdout.splitlines() == ["996", "997", "998", "999", "1000"]
    assert any("/objects/" in key for key in keys(s3_server, BUCKET, prefix))

    (tmp_path / "my-store" / "siltstone.toml").write_text(here(SETTINGS))
    with serving(bare, f"{export}; exec siltstone serve --store ./my-store {listener}", tmp_path) as address:
        done = bare.run(COMMANDS.splitlines()[-1], tmp_path, SILTSTONE_BOOTSTRAP=address, **ENVIRONMENT)
        assert done.stdout.splitlines()[-1] == "1000", done
    for line in ("check", "maintain run --runner in-process", "check"):
        done = bare.run(f"siltstone {line} --store ./my-store", tmp_path, **ENVIRONMENT)
        assert done.returncode == 0, done


def test_the_settings_of_the_block_are_the_defaults_but_for_the_bucket(tmp_path: Path) -> None:
    file = tmp_path / "siltstone.toml"
    file.write_text(SETTINGS)
    loaded, default = (
        load_node_settings(tmp_path, environment={}),
        load_node_settings(tmp_path / "none", environment={}),
    )
    assert (loaded.engine.upload, loaded.retry) == (default.engine.upload, default.retry)
    assert loaded.buckets[0] == tomllib.loads(SETTINGS)["buckets"]["0"]


def test_the_requests_and_the_policy_are_those_of_the_source() -> None:
    source = "".join(path.read_text() for path in sorted(ADAPTER.glob("*.py")))
    made = set(re.findall(r"_client\.(\w+)\(", source)) - {"close"}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    table = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    requests = {name: rights for name, rights in table.items() if "s3:" in rights}
    assert set(requests) == made and len(made) >= 12
    rights = {right for text in requests.values() for right in re.findall(r"s3:\w+", text)}
    policy = [set(statement["Action"]) for statement in json.loads(POLICY)["Statement"]]
    assert set.union(*policy) == rights and not policy[0] & policy[1]


# -- rights


IDENTITIES = {
    "narrow": ("Read", "Write", "List"), "no-read": ("Write", "List"), "no-write": ("Read", "List"),
    "no-list": ("Read", "Write"),
}  # fmt: skip


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Knows several keys; each may do some things with the one bucket."""
    admin = {"accessKey": ENVIRONMENT["AWS_ACCESS_KEY_ID"], "secretKey": ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]}
    identities = [{"name": "admin", "credentials": [admin], "actions": ["Admin"]}]
    for name, actions in IDENTITIES.items():
        key = {"accessKey": name, "secretKey": "only-for-tests"}
        rights = [f"{action}:{BUCKET}" for action in actions]
        identities.append({"name": name, "credentials": [key], "actions": rights})
    file = tmp_path_factory.mktemp("identities") / "s3.json"
    file.write_text(json.dumps({"identities": identities}))
    with running_s3_server(f"-s3.config={file}") as server:
        yield server


def life(bare: BareEnvironment, server: S3Server, folder: Path, name: str) -> list[int]:
    """Exit statuses of all that a store lives through, with the rights of ``name``; it stops at the first failure."""
    url = server.bucket_url(BUCKET, f"rights-{folder.name}")
    rights = {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": "only-for-tests"}
    program = (
        "import siltstone\n"
        f"settings = {{'buckets.0': {url!r}, 'engine.close_time_limit_ms': '2s', 'retry.attempts_max': '2'}}\n"
        "with siltstone.Broker('store', settings=settings) as broker:\n"
        "    broker.create_topic('t', partitions=2)\n"
        "    broker.flush()\n"
        "assert broker is not None\n"
    )
    (folder / "program.py").write_text(program)
    lines = ["python program.py"] + [
        f"siltstone {line} --store store --bucket '{url}'"
        for line in (
            "check",
            "maintain run --runner in-process --force",
            "maintain sweep --grace-period 0ms",
            "check",
        )
    ]
    statuses: list[int] = []
    for line in lines:
        statuses.append(bare.run(line, folder, **rights).returncode)
        if statuses[-1]:
            break
    return statuses


@pytest.mark.nightly
def test_read_write_and_list_are_enough_and_each_is_needed(
    strict_server: S3Server, bare: BareEnvironment, tmp_path: Path, record_tried
) -> None:
    for name in IDENTITIES:
        (tmp_path / name).mkdir()
        statuses = life(bare, strict_server, tmp_path / name, name)
        record_tried("commands with few rights on S3", len(statuses))
        assert statuses == [0] * 5 if name == "narrow" else statuses[-1] != 0, (name, statuses)


# -- costs


def counted(broker: siltstone.Broker) -> StoreStatistics:
    async def statistics(node: KafkaNode) -> StoreStatistics:
        return node.node.buckets.statistics()

    return broker._thread().ask(statistics)


def test_the_requests_of_a_broker_are_those_of_the_table() -> None:
    """Everything is a hundredth of its size, so that a block has as many objects as one of 100 MiB."""
    settings = {"engine.upload.cache_block_bytes_max": "1MiB", "engine.upload.split_size_bytes": "160KiB"}
    with siltstone.Broker(settings=settings) as broker:
        broker.create_topic("busy", partitions=4)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

        every_mark: list[int] = []

        def puts_of(megabytes: float) -> int:
            before = counted(broker)
            for number in range(int(megabytes * 200)):
                producer.produce("busy", bytes(5_243), partition=number % 4)
                assert producer.flush(60) == 0
            broker.flush()
            added = (counted(broker) - before).requests
            marks = added.get("list", 0)
            assert set(added) <= {"put", "list", "delete"} and added.get("delete", 0) <= marks <= 1, added
            every_mark.append(marks)
            return added.get("put", 0) - marks

        puts_of(0.1)
        assert [puts_of(0.005) for _ in range(3)] == [1, 1, 1]
        blocks_filled = 5
        assert 4 * blocks_filled <= puts_of(blocks_filled) <= 4 * blocks_filled + 4
        assert sum(every_mark) == 1
        before = counted(broker)
        assert len(broker.records("busy")) > 0
        assert (counted(broker) - before).requests == {}
        producer.close()
    text = " ".join(PAGE.read_text().split())
    assert "1 put: at most 60 an hour" in text and "4 puts: 41 per GiB" in text
    assert round(4 * 1024 / 100) == 41 and f"each {ID_STEP} objects" in text
