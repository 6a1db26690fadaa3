"""``siltstone.Broker`` without any client: its life, its folder, its settings, its refusals."""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import siltstone
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.broker_thread import BrokerNotRunning
from siltstone.server.embedded import Broker
from siltstone.server.kafka_node import KafkaNode
from siltstone.server.network.sockets import CannotListen
from siltstone.stream_engine.wal.port import WalInUse
from support.processes.new_threads import new_threads

START_SECONDS_MAX = 30.0
"""It takes some hundredths of a second; the machines that run this are shared. The benchmarks measure it."""


def test_siltstone_gives_it_by_name() -> None:
    assert siltstone.Broker is Broker
    with pytest.raises(AttributeError, match="no attribute 'Brocker'"):
        siltstone.Brocker  # noqa: B018


def test_it_is_there_at_once_and_gone_at_once() -> None:
    began = time.monotonic()
    with Broker() as broker:
        assert time.monotonic() - began < START_SECONDS_MAX
        host, port = broker.bootstrap_servers.split(":")
        assert host == "127.0.0.1"
        with socket.create_connection((host, int(port)), 5):
            assert repr(broker) == f"<siltstone.Broker 127.0.0.1:{port}>"
    assert repr(broker) == "<siltstone.Broker not running>"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)
    assert not new_threads("siltstone")


def test_a_temporary_folder_goes_with_it_a_given_one_stays(tmp_path: Path) -> None:
    with Broker() as broker:
        temporary = broker.folder
        assert (temporary / "metadata.sqlite").exists()
    assert not temporary.exists()
    with Broker(tmp_path / "mine") as broker:
        assert broker.folder == tmp_path / "mine"
    assert (tmp_path / "mine" / "metadata.sqlite").exists()
    assert broker.folder == tmp_path / "mine"


def test_an_exception_inside_with_stops_it_and_comes_out() -> None:
    with pytest.raises(KeyError, match="mine"), Broker() as broker:
        folder = broker.folder
        raise KeyError("mine")
    assert repr(broker) == "<siltstone.Broker not running>" and not folder.exists()


def test_one_that_does_not_run_says_so() -> None:
    broker = Broker()
    for use in (
        lambda: broker.bootstrap_servers, lambda: broker.folder, broker.flush, broker.statistics,
    ):  # fmt: skip
        with pytest.raises(BrokerNotRunning, match="not running"):
            use()


def test_started_twice_is_refused_and_stopped_twice_is_not() -> None:
    broker = Broker()
    broker.stop()
    with broker:
        first = broker.folder
        with pytest.raises(BrokerNotRunning, match="is running already"):
            broker.start()
        assert broker.statistics().engine.state == "RUNNING"
    broker.stop()
    with broker:
        assert broker.folder != first
    assert not broker.__dict__["_temporary"]


def test_any_thread_may_stop_it_and_several_at_once() -> None:
    broker = Broker().start()
    folder = broker.folder
    stoppers = [threading.Thread(target=broker.stop) for _ in range(4)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(60)
        assert not stopper.is_alive()
    assert not folder.exists()


def test_two_at_once_do_not_know_each_other() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert one.folder != other.folder


def nothing_is_left(broker: Broker, others: int = 0) -> bool:
    """The error of a refused start is raised in the thread that started the broker."""
    running = new_threads("siltstone-broker")
    return repr(broker) == "<siltstone.Broker not running>" and len(running) == others


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"broker.num_partition": "4"}, "broker.num_partitions"),
        ({"broker.num_partitions": "four"}, "broker.num_partitions"),
        ({"topics.retention.ms": "soon"}, "retention.ms"),
    ],
)
def test_a_setting_that_is_none_is_refused(settings: dict[str, str], text: str) -> None:
    broker = Broker(settings=settings)
    with pytest.raises(SettingRefused, match=text):
        broker.start()
    assert nothing_is_left(broker)


def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with Broker() as first:
        port = int(first.bootstrap_servers.split(":")[1])
        second = Broker(tmp_path / "store", port=port)
        with pytest.raises(CannotListen, match=f"{port}.*another process listens there"):
            second.start()
    assert nothing_is_left(second)
    assert not (tmp_path / "store").exists()


def test_a_store_that_somebody_has_open_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path):
        second = Broker(tmp_path)
        with pytest.raises(WalInUse):
            second.start()
        assert nothing_is_left(second, others=1)
    with second:
        assert second.statistics().engine.state == "RUNNING"


def test_its_own_defaults_yield_to_the_file_and_to_who_starts_it(tmp_path: Path) -> None:
    def delay_ms(broker: Broker) -> int:
        return broker._running[0]._settings.groups.group_initial_rebalance_delay_ms

    key = "groups.group_initial_rebalance_delay_ms"
    with Broker(tmp_path) as broker:
        assert delay_ms(broker) == 0
        assert broker._running[0]._settings.engine.wal.sync == "every-group"
    (tmp_path / "siltstone.toml").write_text(f'"{key}" = 7\n'.replace('"', ""))
    with Broker(tmp_path) as broker:
        assert delay_ms(broker) == 7
    with Broker(tmp_path, settings={key: "8"}) as broker:
        assert delay_ms(broker) == 8


PROGRAM_WITHOUT_SPARK = """
import sys
import siltstone
assert "siltstone.server" not in sys.modules and "asyncio" not in sys.modules, "importing siltstone is not free"
with siltstone.Broker() as broker:
    broker.flush()
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j", "pandas", "botocore", "pytest"}))
"""
PROGRAM_THAT_FORGETS_TO_STOP = """
import siltstone
broker = siltstone.Broker().start()
broker.flush()
print(broker.folder)
"""
PROGRAM_THAT_FAILS_AND_FORGETS = """
import siltstone
broker = siltstone.Broker("store").start()
raise SystemExit(3)
"""
PROGRAM_THAT_CANNOT_STOP = """
import siltstone
from siltstone.server import embedded
embedded.EXIT_SECONDS_MAX = 0.1
broker = siltstone.Broker().start()
broker._thread()._wake = lambda: None  # the wish is not heard
"""


def program(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What is implicit warns, and warnings would be on stderr."""
    return subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", text],
        cwd=folder,
        timeout=60,
        check=False,
        text=True,
        capture_output=True,
    )


def test_no_spark_is_loaded_and_importing_siltstone_loads_no_server(tmp_path: Path) -> None:
    done = program(PROGRAM_WITHOUT_SPARK, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_program_that_ends_without_stop_ends(tmp_path: Path) -> None:
    done = program(PROGRAM_THAT_FORGETS_TO_STOP, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("siltstone-") and not folder.exists()
    done = program(PROGRAM_THAT_FAILS_AND_FORGETS, tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    with Broker(tmp_path / "store") as broker:
        assert broker.statistics().engine.state == "RUNNING"


def test_a_program_that_cannot_stop_it_ends_all_the_same(tmp_path: Path) -> None:
    assert program(PROGRAM_THAT_CANNOT_STOP, tmp_path).returncode == 0


def test_a_thread_that_does_not_end_sleeps_for_good_when_the_program_ends(tmp_path: Path) -> None:
    """It would come back to an interpreter that has ended, and die with SIGSEGV."""
    text = (
        PROGRAM_THAT_CANNOT_STOP
        + """
import atexit, sys
node_thread = broker._thread()
def look():
    frame = sys._current_frames()[node_thread._thread.ident]
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    print("sleep" in names)
atexit.register(look)  # after the hook that stops brokers
"""
    )
    done = program(text, tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_of_several_threads_that_start_it_one_does() -> None:
    broker = Broker()
    together = threading.Barrier(4)
    refused: list[Exception] = []

    def start() -> None:
        together.wait()
        try:
            broker.start()
        except BrokerNotRunning as refusal:
            refused.append(refusal)

    starters = [threading.Thread(target=start) for _ in range(4)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join(60)
    assert len(refused) == 3 and not nothing_is_left(broker)
    broker.stop()
    assert nothing_is_left(broker)


def test_a_setting_that_is_none_is_refused_where_it_was_given() -> None:
    with pytest.raises(SettingRefused, match=r"^Broker\(settings=…\): broker\.numb is not a setting"):
        Broker(settings={"broker.numb": "1"}).start()


def test_a_stop_ends_the_faults_of_the_bucket() -> None:
    """Else it would wait for a bucket that refuses until its time limit."""
    broker = Broker().start()
    broker.faults.refuses_writes = True
    broker.stop()
    assert not broker.faults.refuses_writes


def test_a_topic_is_created_with_its_configuration() -> None:
    async def found(node: KafkaNode) -> tuple[int, int]:
        topic = node.broker.parts.topics.by_name("t")
        assert topic is not None
        return topic.partition_count, topic.config.retention_ms

    with Broker() as broker:
        assert broker.create_topic("t", partitions=2, config={"retention.ms": "7"}) == "t"
        assert broker._thread().ask(found) == (2, 7)


def test_sa01_what_clients_of_a_broker_with_users_are_given() -> None:
    users = {"ada": "pencil", "bob": "brush"}
    with Broker(users=users) as broker:
        assert broker.client_config()["sasl.username"] == "ada"
        assert broker.client_config("bob") == {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "bob",
            "sasl.password": "brush",
        }
        with pytest.raises(InvalidRequest, match="was given no user eve; its users are ada, bob"):
            broker.client_config("eve")
        assert "pencil" not in repr(broker) + repr(broker.statistics()) + repr(vars(broker))


@pytest.mark.parametrize("is_on", [True, False])
def test_loading_the_broker_leaves_the_garbage_collector_as_it_was(is_on: bool) -> None:
    program = f"import gc, siltstone; gc.{'enable' if is_on else 'disable'}(); siltstone.Broker; print(gc.isenabled())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{is_on}\n"
