"""Makes a copy of a suite's sources find the broker, without changing what is tested: addresses, and the fixtures that
would start Kafka in a container."""

import os
import shutil
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from conformance.suites.suite import Prepared, SuiteMissing

ROOT = Path(__file__).parents[2]
SUITES = ROOT / ".build" / "suites"
"""A clone of each suite, by its id, and what the suites need beside."""

PYTHON_NEEDS = (
    "pytest", "pytest-timeout", "docker", "kafka-python", "aiokafka[snappy,lz4,zstd]",
    "confluent-kafka[avro,json,protobuf,schemaregistry]",
)  # fmt: skip
INSTALL_SECONDS_MAX = 900
CONSUMER_TESTS = (
    "0014 0022 0026 0029 0030 0031 0033 0034 0041 0045 0050 0051 0053 0056 0060 0067 0073 0085 0089 0093 0102 0118 "
    "0125 0130 0137 0139 0140"
)
NODE_OF_PLATFORMATIC = 22

GIVEN_SERVER = """

class _GivenServer:
    host, port = "{host}", {port}
    ssl_port = sasl_plain_port = sasl_ssl_port = port
    hosts = ["{host}:{port}"]


@pytest.fixture(scope="session")
def kafka_server():
    return _GivenServer()


for _name in ("ssl_folder", "acl_manager", "kerberos_utils", "kafka_config", "docker", "kafka_image"):
    globals()[_name] = pytest.fixture(scope="session", name=_name)(lambda: None)
"""


def confluent(copy: Path, address: str) -> Prepared:
    return _confluent(copy, address, "tests/integration/producer/test_transactions.py")


def confluent_consumers(copy: Path, address: str) -> Prepared:
    return _confluent(copy, address, "tests/integration/consumer", "--timeout=120")


def confluent_shares(copy: Path, address: str) -> Prepared:
    return _confluent(copy, address, "tests/integration/share_consumer", "--timeout=120")


def _confluent(copy: Path, address: str, *tests: str) -> Prepared:
    cluster = copy / "stubs" / "trivup" / "clusters"
    cluster.mkdir(parents=True)
    for package in (cluster, cluster.parent):
        (package / "__init__.py").touch()
    (cluster / "KafkaCluster.py").write_text("class KafkaCluster: ...\n")
    given = {"BROKERS": address, "TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}
    return pytest_of(copy, tests, {**given, "PYTHONPATH": f"{copy / 'stubs'}{os.pathsep}{copy}"})


def kafka_python(copy: Path, address: str) -> Prepared:
    server = copy / "server"
    server.mkdir()
    tests = ("test/integration/test_producer_integration.py", "-k", "transactional or idempotent")
    given = {"KAFKA_URI": f"kafka://{address}", "KAFKA_VERSION": "4.0.0", "KAFKA_ROOT": str(server)}
    return pytest_of(copy, tests, {**given, "PYTHONPATH": str(copy)})


def aiokafka(copy: Path, address: str) -> Prepared:
    (copy / "aiokafka").rename(copy / "sources")  # the release is tested: these are not compiled
    host, _, port = address.rpartition(":")
    with (copy / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(GIVEN_SERVER.format(host=host, port=port))
    tests = (
        "tests/test_transactional_producer.py",
        "tests/test_transactional_consumer.py",
        "--docker-image=x:2.8.1",
    )
    return pytest_of(copy, tests, {"PYTHONPATH": str(copy)})


def kafkajs(copy: Path, address: str) -> Prepared:
    _node(14)
    helper = copy / "testHelpers" / "index.js"
    port = address.rpartition(":")[2]
    helper.write_text(
        helper.read_text().replace(":9092`", f":{port}`").replace("port: 9092", f"port: {port}")
    )
    _npm(copy)
    specs = [f"src/broker/__tests__/{each}.spec.js" for each in (
        "addOffsetsToTxn", "addPartitionsToTxn", "endTxn", "txnOffsetCommit", "initProducerId",
    )]  # fmt: skip
    command = ("npx", "jest", "--forceExit", "--reporters=default", "--verbose", "-i", *specs,
               "src/producer/__tests__/concurrentTransaction.spec.js", "src/producer/eosManager")  # fmt: skip
    return Prepared(copy, command, {"NODE_ENV": "test", "KAFKA_VERSION": "2.4"})


def platformatic(copy: Path, address: str) -> Prepared:
    return _platformatic(copy, address, "test/clients/producer/transactions.test.ts")


def platformatic_consumers(copy: Path, address: str) -> Prepared:
    return _platformatic(copy, address, "test/clients/consumer/consumer-consumer-group-protocol.test.ts")


def _platformatic(copy: Path, address: str, tests: str) -> Prepared:
    node = _newer_node(NODE_OF_PLATFORMATIC)
    helper = copy / "test" / "helpers.ts"
    text = helper.read_text()
    helper.write_text(text.replace("localhost:9001", address).replace("localhost:9011", address))
    _npm(copy)
    command = (
        str(node),
        "--experimental-strip-types",
        "--no-warnings",
        "--test",
        "--test-reporter=tap",
        tests,
    )
    return Prepared(copy, command, {"KAFKA_VERSION": "4.0.0"})


def librdkafka(copy: Path, address: str) -> Prepared:
    return _librdkafka(copy, address, "0090 0094 0098 0103 0129")


def librdkafka_consumers(copy: Path, address: str) -> Prepared:
    """Those of its tests that join groups, with the new protocol."""
    return _librdkafka(copy, address, CONSUMER_TESTS, TEST_CONSUMER_GROUP_PROTOCOL="consumer")


def librdkafka_shares(copy: Path, address: str) -> Prepared:
    numbers = "0170 0171 0172 0173 0174 0175 0176 0177 0178 0179 0180 0181 0184 0185"
    return _librdkafka(copy, address, numbers, seconds_max=400)


def _librdkafka(copy: Path, address: str, numbers: str, seconds_max: int = 150, **given: str) -> Prepared:
    """A test that is cut off or aborts has no row in the runner's table, so it gets one here, with its exit status: 124
    after ``seconds_max``."""
    if not (shutil.which("gcc") and shutil.which("g++") and shutil.which("make")):
        raise SuiteMissing("gcc, g++ and make are not installed")
    if not (copy / "tests" / "test-runner").exists():
        for command in (
            ("./configure", "--disable-gssapi", "--disable-curl", "--disable-zstd"), ("make", "libs"),
            ("make", "-C", "tests", "build"),
        ):  # fmt: skip
            _run(copy, command)
    (copy / "tests" / "test.conf").write_text(f"bootstrap.servers={address}\ntest.timeout.multiplier=2\n")
    run = f"TESTS=$each timeout {seconds_max} ./test-runner || echo ${{each}}_exit_$? \\| FAILED"
    each = f"for each in {numbers}; do {run}; done"
    libraries = f"{copy / 'src'}{os.pathsep}{copy / 'src-cpp'}"
    environment = {"LD_LIBRARY_PATH": libraries, "TEST_KAFKA_VERSION": "4.2.0", **given}
    return Prepared(copy / "tests", ("sh", "-c", each), environment)


def franz_go(copy: Path, address: str) -> Prepared:
    return _franz_go(copy, address, "TestTxnEtl", "50000")


def franz_go_groups(copy: Path, address: str) -> Prepared:
    return _franz_go(copy, address, "TestGroupETL|TestGroupSimple|TestShareGroup", "20000")


def _franz_go(copy: Path, address: str, tests: str, records: str) -> Prepared:
    if not shutil.which("go"):
        raise SuiteMissing("go is not installed")
    command = ("go", "test", "./pkg/kgo", "-run", tests, "-v", "-count=1", "-timeout", "20m")
    given = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": records, "GOFLAGS": "-mod=mod"}
    return Prepared(copy, command, given)


def pytest_of(copy: Path, tests: Sequence[str], environment: dict[str, str]) -> Prepared:
    (copy / "of-nobody.ini").write_text("[pytest]\n")
    options = ("-p", "no:cacheprovider", "-c", "of-nobody.ini", "--rootdir", ".", "-rA", "-q")
    return Prepared(copy, (str(_python()), "-m", "pytest", *options, *tests), environment)


def _python() -> Path:
    """Returns the interpreter of the environment in which suites of Python run."""
    folder = SUITES / "python"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True)
        _run(folder, (str(python), "-m", "pip", "install", "--quiet", *PYTHON_NEEDS))
        (folder / "installed").touch()
    return python


def _node(oldest: int) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise SuiteMissing("node and npm are not installed")
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    if int(told.strip().lstrip("v").partition(".")[0] or 0) < oldest:
        raise SuiteMissing(f"it needs node {oldest}, and this is {told.strip()}")


def _newer_node(version: int) -> Path:
    """Returns the program of this version, which the npm package of that name carries."""
    _node(0)  # for npm
    folder = SUITES / f"node-{version}"
    program = folder / "node_modules" / "node" / "bin" / "node"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(
            folder,
            ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", f"node@{version}"),
        )
    return program


def _npm(copy: Path) -> None:
    if not (copy / "node_modules").exists():
        _run(copy, ("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"))


def _run(folder: Path, command: Sequence[str]) -> None:
    """Raises SuiteMissing."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise SuiteMissing(f"{command[0]}: {trouble}") from trouble
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no word"]
        raise SuiteMissing(f"{' '.join(command[:2])} failed: {last[0][:200]}")
