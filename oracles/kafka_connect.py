"""A worker of Kafka Connect: its properties, and its connectors by its REST interface."""

import json
import time
import urllib.error
import urllib.request

SECONDS_MAX = 120


def worker_properties(
    servers: str, rest_port: int, converter: str = "org.apache.kafka.connect.storage.StringConverter"
) -> dict[str, str]:
    """Returns the properties of a worker that reads the store of its settings from the broker, too."""
    return {
        "bootstrap.servers": servers,
        "group.id": "workers",
        "key.converter": converter,
        "value.converter": converter,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": "3",
        "exactly.once.source.support": "enabled",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "listeners": f"http://127.0.0.1:{rest_port}",
    }


def put_connector(rest_port: int, name: str, config: dict[str, str]) -> None:
    """Makes the connector, when the worker has started."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{rest_port}/connectors/{name}/config",
        json.dumps(config).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    give_up = time.monotonic() + SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX):
                return
        except urllib.error.HTTPError as refusal:
            said = refusal.read().decode()
            assert refusal.code in (404, 409, 500, 503), said  # it is still starting
        except urllib.error.URLError as reason:
            said = str(reason)
        assert time.monotonic() < give_up, said
        time.sleep(0.2)
