"""Every command and program in the README works: shell lines are run in order in an empty folder, ``make`` targets are
looked up (the suite runs inside one of them), programs are run, links are followed."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from siltstone.metadata.entities import JobState
from siltstone.server.embedded import Broker
from siltstone.spark.opening import open_store
from support.engine.small_store import small_store
from support.pages.bare_environment import BareEnvironment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
MAKE, *COMMANDS = [block for kind, block in BLOCKS if kind == "sh"]
LINES = [line for block in COMMANDS for line in block.splitlines() if line]
PROGRAMS = [block for kind, block in BLOCKS if kind == "python"]
RUN = [*COMMANDS, *PROGRAMS]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return BareEnvironment(tmp_path_factory.mktemp("bare"))


def cheap(line: str) -> str:
    """The demo with fewer flights and no JVM: ``make demo`` is the whole one."""
    return f"{line} --flights 6000 --runner in-process" if " demo " in line else line


def test_there_is_something_to_test() -> None:
    assert {kind for kind, _ in BLOCKS} == {"sh", "python"}
    assert len(LINES) >= 7 and len(PROGRAMS) == 3
    assert all(line.startswith("siltstone ") for line in LINES)


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = [line.removeprefix("make ") for line in MAKE.splitlines()]
    wanted += re.findall(r"`make ([a-z-]+)`", README)
    assert wanted and set(wanted) <= set(targets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.timeout(600)
def test_the_commands_work_in_the_order_given(bare: BareEnvironment, folder: Path) -> None:
    for line in LINES:
        done = bare.run(cheap(line), folder, seconds_max=500)
        assert done.returncode == 0 and done.stdout and done.stderr == "", f"{line}: {done}"


def test_the_first_program_shows_data_flowing(bare: BareEnvironment, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[0])
    done = bare.run("python program.py", tmp_path)
    assert (done.stdout, done.stderr) == ("b'world' b'hello'\n", "")


@pytest.mark.spark
@pytest.mark.xdist_group("readme")
@pytest.mark.timeout(600)
def test_the_second_program_reads_a_topic_on_a_machine_without_java(
    bare: BareEnvironment, tmp_path: Path
) -> None:
    with Broker(tmp_path / "my-store") as broker:
        broker.create_topic("flights", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(30):
            producer.produce("flights", b"flight %d" % number, partition=number % 3 % 2)
        assert producer.flush(60) == 0
    (tmp_path / "program.py").write_text(PROGRAMS[1])
    assert bare.run("java -version", tmp_path).returncode == 127, "there is a Java on the path"
    done = bare.run("python program.py", tmp_path, seconds_max=280)
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[1:3] for line in done.stdout.splitlines()[3:5]] == [
        ["        0", "   20"],
        ["        1", "   10"],
    ]


@pytest.mark.spark
@pytest.mark.xdist_group("readme")
@pytest.mark.timeout(600)
def test_the_third_program_compacts_on_a_spark_that_it_starts(bare: BareEnvironment, tmp_path: Path) -> None:
    small_store(tmp_path / "my-store")
    (tmp_path / "program.py").write_text(PROGRAMS[2])
    done = bare.run("python program.py", tmp_path, seconds_max=500)
    assert done.returncode == 0, done.stderr
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert shown[0] == "kind unit outcome what"
    assert re.match(r"sso-compaction objects done [3-9] objects became \d+, ", shown[1]), done.stdout
    with open_store(tmp_path / "my-store") as store:
        (job,) = store.metadata.image.jobs.values()
    assert (job.kind, job.state) == ("sso-compaction", JobState.SUCCEEDED)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
