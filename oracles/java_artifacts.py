"""Java archives (jars) from Maven Central, with all they depend on, in ``.build/java/<name>-<version>``.

Apache Ivy fetches them: pyspark ships its jar, and its own settings know the repository, so a fresh checkout needs
nothing but Java and the network. What a folder may hold is noted in ``checksums.txt``; a jar that differs, or is not
noted there, is refused. A folder is complete or absent, whoever is interrupted: it is filled under another name.
Who bumps a version runs ``python -m oracles.java_artifacts`` and reads the difference.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from siltstone.spark import ivy, kafka_connector
from siltstone.spark.ivy import Jar
from siltstone.spark.java import JavaNotFound, find_java

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".build" / "java"
CHECKSUMS = Path(__file__).parent / "checksums.txt"
PYSPARK_JARS = ivy.pyspark_jars()
KAFKA_VERSION = "4.3.1"


class JavaArtifactsUnavailable(Exception):
    """The jars cannot be fetched on this machine: there is no Java, or no network. Tests skip with the text of this
    exception."""


class JavaArtifactsDiffer(Exception):
    """The fetched jars are not those that ``checksums.txt`` notes."""


class ArtifactSet(msgspec.Struct, frozen=True):
    """``excluded`` are regular expressions of the names of modules that nothing we start needs."""

    name: str
    version: str
    modules: tuple[Jar, ...]
    with_dependencies: bool = True
    excluded: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return JARS / f"{self.name}-{self.version}"


def _kafka(name: str, version: str = KAFKA_VERSION) -> Jar:
    return Jar("org.apache.kafka", name, version)


APACHE_KAFKA = ArtifactSet(
    "apache-kafka",
    KAFKA_VERSION,
    (_kafka("kafka_2.13"), _kafka("kafka-tools"), Jar("org.slf4j", "slf4j-simple", "1.7.36")),
    excluded=("connect-.*",),  # forty jars of web server, for one tool of Connect's
)
"""The broker, the tools and the clients."""

KAFKA_3_CLIENTS = ArtifactSet(
    "kafka-clients",
    "3.9.2",
    (_kafka("kafka-clients", "3.9.2"), Jar("org.slf4j", "slf4j-simple", "1.7.36")),
)
"""The last clients of Kafka 3, which most programs still use."""

SPARK_KAFKA_CONNECTOR = ArtifactSet(
    "spark-kafka-connector",
    kafka_connector.VERSION,
    tuple(kafka_connector.JARS),
    with_dependencies=False,  # pyspark holds the rest
)
"""The jars that ``siltstone.spark.session(kafka=True)`` fetches."""

_ICEBERG_VERSION = "1.10.1"
ICEBERG_REST = ArtifactSet(
    "iceberg-rest",
    _ICEBERG_VERSION,
    (
        Jar("org.apache.iceberg", "iceberg-core", _ICEBERG_VERSION, classifiers=("tests",)),
        Jar("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.0.16"),
        Jar("org.xerial", "sqlite-jdbc", "3.47.1.0"),
    ),
)
"""Iceberg's own REST catalog, which is among its tests, and what it needs besides the Hadoop of pyspark."""

FOREIGN_SPARK = ArtifactSet(
    "foreign-spark",
    "4.0.1",
    (
        Jar("io.delta", "delta-spark_2.13", "4.0.0"),
        Jar("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", _ICEBERG_VERSION),
        Jar("org.xerial", "sqlite-jdbc", "3.47.1.0"),
    ),
    excluded=("spark-.*", "scala-library"),  # they are in pyspark
)
"""The newest Delta and Iceberg for one Spark, which ``foreign_spark`` runs."""

FOREIGN_KAFKA_CONNECTOR = ArtifactSet(
    "foreign-kafka-connector",
    "4.0.1",
    (
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.1"),
        *(jar for jar in kafka_connector.JARS if jar.name != "spark-sql-kafka-0-10_2.13"),
    ),
    with_dependencies=False,
)
"""The connector for Kafka of that Spark. Maven Central lacks one of its jars, so that one is of a later Spark."""

_QUIET_LOG = Jar("org.slf4j", "slf4j-simple", "1.7.36")
ECLIPSE_COMPILER = ArtifactSet(
    "ecj", "3.40.0", (Jar("org.eclipse.jdt", "ecj", "3.40.0"),), with_dependencies=False
)
"""A compiler of Java that needs no JDK."""

KAFKA_STREAMS = ArtifactSet("kafka-streams", KAFKA_VERSION, (_kafka("kafka-streams"), _QUIET_LOG))
KAFKA_CONNECT = ArtifactSet(
    "kafka-connect",
    KAFKA_VERSION,
    (_kafka("connect-runtime"), _kafka("connect-file"), _kafka("connect-json"), _QUIET_LOG),
)
"""A worker of Connect, and the connector that reads a file."""

ICEBERG_CONNECT = ArtifactSet(
    "iceberg-kafka-connect",
    _ICEBERG_VERSION,
    (
        _kafka("connect-runtime"),
        _kafka("connect-json"),
        Jar("org.apache.iceberg", "iceberg-kafka-connect", _ICEBERG_VERSION),
        Jar("org.apache.iceberg", "iceberg-parquet", _ICEBERG_VERSION),
        Jar("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
)
"""A worker of Connect, and Iceberg's sink in its parts: its archive for users, ``iceberg-kafka-connect-runtime``, is
not in Maven Central. It also needs the Hadoop of pyspark."""

DEBEZIUM_VERSION = "3.3.1.Final"
DEBEZIUM = ArtifactSet(
    "debezium",
    DEBEZIUM_VERSION,
    (
        _kafka("connect-runtime"),
        _kafka("connect-json"),
        Jar("io.debezium", "debezium-connector-postgres", DEBEZIUM_VERSION),
        _QUIET_LOG,
    ),
)
"""A worker of Connect, and Debezium's connector to PostgreSQL."""

_FLINK_VERSION = "2.2.1"
FLINK = ArtifactSet(
    "flink",
    _FLINK_VERSION,
    (
        Jar("org.apache.flink", "flink-clients", _FLINK_VERSION),
        Jar("org.apache.flink", "flink-streaming-java", _FLINK_VERSION),
        Jar("org.apache.flink", "flink-connector-datagen", _FLINK_VERSION),
        Jar("org.apache.flink", "flink-connector-base", _FLINK_VERSION),
        Jar("org.apache.flink", "flink-connector-kafka", "5.0.0-2.2"),
        _QUIET_LOG,
    ),
)
"""Flink in one process, and its connector to Kafka."""

ALL = (
    APACHE_KAFKA,
    KAFKA_3_CLIENTS,
    SPARK_KAFKA_CONNECTOR,
    ICEBERG_REST,
    FOREIGN_SPARK,
    FOREIGN_KAFKA_CONNECTOR,
    ICEBERG_CONNECT,
    ECLIPSE_COMPILER,
    KAFKA_STREAMS,
    KAFKA_CONNECT,
    DEBEZIUM,
    FLINK,
)


def fetch_jars(wanted: ArtifactSet) -> tuple[Path, ...]:
    """Returns the jars in the order of their names; fetches them if they are missing. Raises
    JavaArtifactsUnavailable and JavaArtifactsDiffer."""
    with _one_at_a_time():
        if not _is_complete(wanted):
            _fetch(wanted)
    return tuple(sorted(wanted.folder.glob("*.jar")))


def java_program() -> Path:
    """Returns the program. Raises JavaArtifactsUnavailable."""
    try:
        return find_java().home / "bin" / "java"
    except JavaNotFound as missing:
        raise JavaArtifactsUnavailable(str(missing)) from missing


def class_path(jars: tuple[Path, ...]) -> str:
    return os.pathsep.join(map(str, jars))


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Holds a lock across processes, because test workers fetch at the same moment."""
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(wanted: ArtifactSet) -> bool:
    """A folder that was fetched for another list of modules is fetched anew."""
    recipe = wanted.folder / "ivy.xml"
    return recipe.is_file() and recipe.read_text() == _recipe(wanted)


def _fetch(wanted: ArtifactSet) -> None:
    filling = Path(tempfile.mkdtemp(dir=JARS, prefix="filling-"))
    try:
        _run_ivy(_recipe(wanted), filling)
        _check(filling)
        shutil.rmtree(wanted.folder, ignore_errors=True)
        filling.rename(wanted.folder)
    finally:
        shutil.rmtree(filling, ignore_errors=True)


def _recipe(wanted: ArtifactSet) -> str:
    return ivy.recipe(
        wanted.name, wanted.modules, with_dependencies=wanted.with_dependencies, excluded=wanted.excluded
    )


def _run_ivy(recipe: str, target: Path) -> None:
    try:
        ivy.retrieve(recipe, target, cache=JARS / "cache", java=java_program())
    except ivy.JarsUnavailable as reason:
        raise JavaArtifactsUnavailable(str(reason)) from reason


def _check(folder: Path) -> None:
    noted = dict(reversed(line.split()) for line in CHECKSUMS.read_text().splitlines())
    fetched = {jar.name: _digest(jar) for jar in folder.glob("*.jar")}
    strange = sorted(name for name, digest in fetched.items() if noted.get(name) != digest)
    if strange or not fetched:
        raise JavaArtifactsDiffer(
            f"not as noted in {CHECKSUMS.name}: {', '.join(strange) or 'nothing was fetched'}"
        )


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def _note_all() -> None:
    """Writes the checksums of the jars that Maven Central serves now."""
    digests: dict[str, str] = {}
    for each in ALL:
        with tempfile.TemporaryDirectory() as folder:
            _run_ivy(_recipe(each), Path(folder))
            digests |= {jar.name: _digest(jar) for jar in Path(folder).glob("*.jar")}
    CHECKSUMS.write_text("".join(f"{digests[name]} {name}\n" for name in sorted(digests)))


if __name__ == "__main__":
    _note_all()
