"""Kafka's own command-line tools, each a JVM of its own, as an operator or a load test runs them. The options are
those of the tools, without ``--bootstrap-server``, which is added: ``tools.run("kafka-topics", "--list")``. A tool
takes about a second to start; ``started`` runs a tool that reads until it is stopped."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from oracles.java_artifacts import APACHE_KAFKA, class_path, fetch_jars, java_program

TOOL_TIMEOUT_SECONDS = 60
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
"""The main class of each of Kafka's scripts."""


class ToolRun(msgspec.Struct, frozen=True):
    status: int
    output: str
    errors: str


class KafkaTools:
    def __init__(self, bootstrap_servers: str) -> None:
        """Fetches the tools. Raises JavaArtifactsUnavailable."""
        self.bootstrap_servers = bootstrap_servers
        self._java = [str(java_program()), *JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._java += ["-cp", class_path(fetch_jars(APACHE_KAFKA))]

    def run(
        self, tool: str, *options: str, text: str = "", timeout_seconds: float = TOOL_TIMEOUT_SECONDS
    ) -> ToolRun:
        """Runs a tool; ``text`` is its standard input."""
        done = subprocess.run(
            self._command(tool, options),
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        return ToolRun(done.returncode, done.stdout, done.stderr)

    def output(self, tool: str, *options: str, text: str = "") -> str:
        """Runs a tool that has to succeed, and returns its output."""
        done = self.run(tool, *options, text=text)
        assert done.status == 0, f"{tool} ended with status {done.status}: {done.output}{done.errors}"
        return done.output

    @contextmanager
    def started(self, tool: str, *options: str) -> Iterator[subprocess.Popen[str]]:
        """Runs a tool that ends only when it is stopped, which the end of the block does."""
        process = subprocess.Popen(
            self._command(tool, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.terminate()

    def _command(self, tool: str, options: tuple[str, ...]) -> list[str]:
        address = ("--bootstrap-server", self.bootstrap_servers)
        # It belongs to the command of kafka-cluster, and stands before the command of all others.
        arguments = (*options, *address) if tool == "kafka-cluster" else (*address, *options)
        return [*self._java, CLASSES[tool], *arguments]
