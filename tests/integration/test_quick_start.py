"""docs/quick-start.md works: its commands and programs are run as they stand, but for the port."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from confluent_kafka.admin import AdminClient

from siltstone.spark.java import find_java
from siltstone.spark.kafka_connector import JARS
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.ports import free_port

PAGE = ROOT / "docs" / "quick-start.md"
ADDRESS = "127.0.0.1:9092"
SERVE, COMMANDS, OF_EACH_KEY, SERVE_OTHERS = blocks(PAGE, "sh")
CLIENT, BROKER, TEST, TRANSACTION, FRAME, SPARK = blocks(PAGE, "python")
RUN = [SERVE, COMMANDS, OF_EACH_KEY, SERVE_OTHERS, CLIENT, BROKER, TEST, TRANSACTION, FRAME, SPARK]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return BareEnvironment(tmp_path_factory.mktemp("bare"))


@contextmanager
def serving(bare: BareEnvironment, line: str, folder: Path) -> Iterator[str]:
    """Where it says that it is ready."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {line.strip()}"], cwd=folder, env=bare.variables(),
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield re.search(r"ready at (\S+)", process.stdout.readline())[1]
        finally:
            process.terminate()
            assert process.wait(60) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick-start")


@pytest.fixture(scope="module")
def address(bare: BareEnvironment, folder: Path) -> Iterator[str]:
    assert len(SERVE.splitlines()) == 1
    with serving(bare, f"{SERVE.strip()} --listener 127.0.0.1:{free_port()}", folder) as address:
        yield address


def test_the_commands_work_one_after_another(bare: BareEnvironment, folder: Path, address: str) -> None:
    lines = COMMANDS.splitlines()
    done = [bare.run(line, folder, SILTSTONE_BOOTSTRAP=address) for line in lines]
    for line, outcome in zip(lines, done, strict=True):
        assert outcome.returncode == 0, f"{line}: {outcome.stderr}"
    assert "numbers" in done[1].stdout
    assert len(done[-1].stdout.splitlines()) == 5


def test_the_program_with_a_transaction_works(bare: BareEnvironment, folder: Path) -> None:
    told = (
        "    orders.produce('orders', b'a plum')\n    orders.flush(10)\n    pack(broker.client_config(), 1)\n"
        "    print([record.value for record in broker.records('parcels')])\n"
    )
    (program,) = (part for part in TRANSACTION.split("\n\n\n") if part.startswith("def pack"))
    assert len(program.splitlines()) == 12, "the page says so"
    (folder / "transaction.py").write_text(TRANSACTION + told)
    done = bare.run("python transaction.py", folder)
    assert done.returncode == 0 and done.stdout == "[b'in paper: a pear', b'in paper: a plum']\n", done.stderr


def test_of_each_key_the_newest_value(bare: BareEnvironment, folder: Path, address: str) -> None:
    done = [bare.run(line, folder, SILTSTONE_BOOTSTRAP=address) for line in OF_EACH_KEY.splitlines()]
    assert [outcome.returncode for outcome in done] == [0, 0, 0], done
    assert [line.split("\t")[:2] for line in done[-1].stdout.splitlines()[1:]] == [
        ["N1", "green"],
        ["N2", "blue"],
    ]


def test_the_program_of_a_client_works(bare: BareEnvironment, folder: Path, address: str) -> None:
    assert CLIENT.count(ADDRESS) == 2
    (folder / "client.py").write_text(CLIENT.replace(ADDRESS, address))
    done = bare.run("python client.py", folder)
    assert (done.returncode, done.stdout) == (0, "b'world' b'hello'\n"), done.stderr


def test_a_broker_inside_a_program_works(bare: BareEnvironment, folder: Path) -> None:
    (folder / "broker.py").write_text(BROKER)
    done = bare.run("python broker.py", folder)
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout), done.stderr


def test_a_test_works(bare: BareEnvironment, folder: Path) -> None:
    (folder / "test_orders.py").write_text(TEST)
    done = bare.run("python -m pytest -q -p no:cacheprovider test_orders.py", folder)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_topic_is_a_data_frame_where_no_java_is(
    bare: BareEnvironment, folder: Path, address: str, record_tried: Callable[[str, int], None]
) -> None:
    """By night: the README's program does the same in each run."""
    done = bare.run("seq 1 9 | siltstone produce numbers --create", folder, SILTSTONE_BOOTSTRAP=address)
    assert done.returncode == 0, done.stderr
    (folder / "frame.py").write_text(FRAME)
    done = bare.run("python frame.py", folder, seconds_max=240)
    assert done.returncode == 0, done.stderr
    assert "|     0|    1|" in done.stdout, done.stdout
    record_tried("programs of the quick start on Spark", 1)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_sparks_own_connector_is_fetched_where_no_java_is(
    bare: BareEnvironment, folder: Path, address: str, record_tried: Callable[[str, int], None]
) -> None:
    """tests/spark does much more with these jars, by day. The machine's Java lends the certificates that it trusts."""
    sent = bare.run(
        "printf 'a:hello\\n' | siltstone produce greetings --create -K :", folder, SILTSTONE_BOOTSTRAP=address
    )
    assert sent.returncode == 0, sent.stderr
    (folder / "connector.py").write_text(SPARK.replace(ADDRESS, address))
    trusted = find_java().home / "lib" / "security" / "cacerts"
    options = {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={trusted}"} if trusted.exists() else {}
    done = bare.run("python connector.py", folder, seconds_max=500, **options)
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout, done.stdout
    record_tried("programs of the quick start on Spark", 1)


def test_the_jars_that_are_named_are_those_that_are_fetched() -> None:
    (jars,) = blocks(PAGE, "text")
    assert jars.split() == [f"{each.organisation}:{each.name}:{each.version}" for each in JARS]
    assert f"pyspark {pyspark.__version__}" in PAGE.read_text()


def test_who_is_elsewhere_is_told_the_advertised_address(bare: BareEnvironment, tmp_path: Path) -> None:
    port = free_port()
    line = SERVE_OTHERS.replace("--listener 0.0.0.0:9092", f"--listener 0.0.0.0:{port}")
    assert line != SERVE_OTHERS
    with serving(bare, line, tmp_path) as told:
        assert told == "broker.example:9092"
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        (broker,) = admin.list_topics(timeout=60).brokers.values()
        assert f"{broker.host}:{broker.port}" == told


def test_the_address_by_itself_is_the_default() -> None:
    text = PAGE.read_text()
    assert f"`{ADDRESS}` unless `--listener`" in text.replace("\n", " ")
