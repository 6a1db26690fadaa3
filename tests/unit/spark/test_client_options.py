"""How options say how to connect, and that no secret of them is anywhere else afterwards."""

import logging
import pickle
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from pyspark_siltstone import DefaultSource
from siltstone.kafka_client.client_settings import InvalidClientConfig
from siltstone.model.access import LoginMechanism, SecurityProtocol
from siltstone.model.secret import Secret
from siltstone.spark.client_options import (
    BY_ENVIRONMENT,
    ClientFileMissing,
    ClientOptionsRefused,
    take_client_options,
)
from siltstone.spark.source import data_source

PLANTED = "pl4nted-pa55word"
PLACE = {"store": "s", "subscribe": "t"}
LITERAL = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "ada",
    "Kafka.SASL.Password": PLANTED,
}


def test_literals_are_taken_out_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        choice, rest = take_client_options({**PLACE, **LITERAL, "kafka.bootstrap.servers": "b:1"})
    found = choice.found()
    assert found is not None and rest == {**PLACE, "kafka.bootstrap.servers": "b:1"}
    assert (found.protocol, found.mechanism) == (SecurityProtocol.SASL_SSL, LoginMechanism.SCRAM_SHA_256)
    assert (found.username, found.password) == ("ada", Secret(PLANTED))
    assert "kafka.client.config" in caplog.text and PLANTED not in caplog.text
    assert PLANTED not in repr(choice)


def test_sp02_a_file_is_read_by_each_process(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    choice, rest = take_client_options({**PLACE, "kafka.client.config": str(file)})
    assert rest == PLACE
    with pytest.raises(ClientFileMissing, match=f"this driver or executor has no {file}"):
        choice.found()
    file.write_text(f"security.protocol=SASL_SSL\nsasl.username=ada\nsasl.password={PLANTED}\n")
    file.chmod(0o600)
    found = choice.found()
    assert found is not None and found.password == Secret(PLANTED)
    assert PLANTED.encode() not in pickle.dumps(choice), "only the path travels"


def test_without_options_the_environment_says_how() -> None:
    assert take_client_options(PLACE) == (BY_ENVIRONMENT, PLACE)
    assert BY_ENVIRONMENT.found() is BY_ENVIRONMENT.security() is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.sasl.jaas.config": PLANTED}, "use sasl.username and sasl.password"),
        ({"kafka.ssl.keystore.location": PLANTED}, "files in PEM"),
        ({"kafka.ssl.keystore.password": PLANTED}, "use ssl.key.password"),
        ({"kafka.sasl.passwort": PLANTED}, "did you mean sasl.password"),
        ({"kafka.sasl.password": PLANTED}, "have no effect with security.protocol=PLAINTEXT"),
        ({"kafka.security.protocol": PLANTED}, "security.protocol is one of"),
    ],
)
def test_sp04_what_is_refused_is_told_without_its_value(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidClientConfig, match=says) as refused:
        DefaultSource({**PLACE, **options})
    assert PLANTED not in str(refused.value)


def test_a_file_and_literals_are_one_too_many() -> None:
    with pytest.raises(ClientOptionsRefused, match=r"kafka\.client\.config and kafka\.sasl\.mechanism"):
        take_client_options({**LITERAL, "kafka.client.config": "/x"})


@pytest.mark.parametrize("has_tail", [False, True])
def test_ab13_sp01_a_task_has_the_secret_only_if_it_has_to_log_in(
    monkeypatch: pytest.MonkeyPatch, has_tail: bool
) -> None:
    source = DefaultSource({**PLACE, **LITERAL})
    assert PLANTED not in repr(source.options) and not [each for each in source.options if "sasl" in each]
    unit = SimpleNamespace(tail_pieces=("a tail",) if has_tail else ())
    asked: list[Any] = []

    def planned(opened: Any, _: object) -> Any:
        asked.append(opened.client)
        return SimpleNamespace(units=[unit])

    monkeypatch.setattr(data_source, "plan_scan", planned)
    monkeypatch.setattr(data_source, "encode_unit", lambda _: b"unit")
    monkeypatch.setattr(
        data_source.msgspec.structs, "replace", lambda _, client: SimpleNamespace(client=client)
    )
    monkeypatch.setattr(source, "open_source", lambda _: nullcontext(SimpleNamespace()))
    reader = data_source.TopicReader(source, data_source.parse_options(source.options))
    reader.partitions()
    assert asked[0]().password == Secret(PLANTED), "the driver asks the owners of tails"
    pickled = cloudpickle.dumps(reader)
    assert (PLANTED.encode() in pickled) is has_tail
    assert b"subscribe" not in pickled, "a task needs no options"


def test_sp01_the_reader_of_a_stream_leaves_its_options_at_the_driver() -> None:
    source = DefaultSource({**PLACE, **LITERAL, "maxOffsetsPerTrigger": "98765"})
    schema = data_source.spark_schema(("key", "value"))
    reader = source.streamReader(schema)
    copy = cloudpickle.loads(cloudpickle.dumps(reader))
    assert copy._options is copy._open_source is None
    assert copy._client.found() == source.client.found()
