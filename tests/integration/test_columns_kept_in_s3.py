"""Columns that are found from the records, and kept in a bucket of a real S3 server for the next start."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from support.engine.s3_server import S3Server
from support.kafka.quiet_client import QUIET

pytestmark = pytest.mark.s3


def test_ci21_kept_columns_in_a_bucket_are_found_again(tmp_path: Path, s3_server: S3Server) -> None:
    place = s3_server.new_url()
    with siltstone.Broker(tmp_path / "store") as broker:
        broker.create_topic("clicks")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})

        def rows_after(value: object) -> list[dict[str, object]]:
            producer.produce("clicks", json.dumps(value))
            assert producer.flush(60) == 0
            scan = siltstone.scan(
                "clicks", store=broker.folder, value="json", columns="infer", schema_location=place
            )
            return [
                {name: each for name, each in row.items() if name != "kafka" and each is not None}
                for row in scan.to_arrow().to_pylist()
            ]

        assert rows_after({"n": 1}) == [{"n": 1}]
        found = rows_after({"n": "late", "x": True})
        assert found == [{"n": 1}, {"x": True, "_rescued_data": '{"n":"late"}'}]
        assert rows_after({}) == [*found, {}]
