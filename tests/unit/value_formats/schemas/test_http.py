"""A registry over HTTP, with a server that answers as Confluent's documents say."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.value_formats.failures import FormatRefused, RegistryNotReachable, SchemaUnknown
from siltstone.value_formats.schemas.http import TRIES, HttpRegistry
from siltstone.value_formats.value_format import FormatKind, Schema


class Served:
    """What the server has, what was asked of it, and the statuses that it gives first."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.auth: str | None = None
        self.failing: list[int] = []
        self.url = ""
        self.location = ""


@pytest.fixture
def served() -> Iterator[Served]:
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            state.auth = self.headers.get("Authorization")
            status = state.failing.pop(0) if state.failing else 200 if self.path in state.answers else 404
            body = json.dumps(state.answers.get(self.path, {"error_code": 40403})).encode()
            self.send_response(status)
            if state.location:
                self.send_header("Location", state.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def registry(served: Served, **environment: str) -> HttpRegistry:
    return HttpRegistry(served.url + "/", environment, ManualClock())


def test_a_schema_is_asked_for_once(served: Served) -> None:
    served.answers["/schemas/ids/7"] = {"schema": '"int"'}
    asking = registry(served)
    assert asking.schema(7) == asking.schema(7) == Schema(FormatKind.AVRO, '"int"')
    assert served.asked == ["/schemas/ids/7"]
    assert served.auth is None


def test_the_newest_of_a_subject_with_what_it_refers_to(served: Served) -> None:
    refers = [{"name": "t.B", "subject": "b/x", "version": 2}]
    served.answers = {
        "/subjects/a-value/versions/latest": {"id": 3, "schemaType": "AVRO", "schema": '"t.A"', "references": refers},
        "/subjects/b%2Fx/versions/2": {
            "id": 2, "schema": '"t.B"', "references": [{"name": "t.C", "subject": "c", "version": 1}],
        },
        "/subjects/c/versions/1": {"id": 1, "schema": '"t.C"'},
    }  # fmt: skip
    assert registry(served).latest("a-value") == (3, Schema(FormatKind.AVRO, '"t.A"', ('"t.C"', '"t.B"')))


def test_protobuf_is_asked_for_as_a_descriptor(served: Served) -> None:
    served.answers = {
        "/schemas/ids/4": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
        "/schemas/ids/4?format=serialized": {"schema": "CgA=", "schemaType": "PROTOBUF"},
    }
    assert registry(served).schema(4) == Schema(FormatKind.PROTOBUF, "CgA=")


def test_the_password_comes_from_the_environment(served: Served) -> None:
    served.answers["/schemas/ids/7"] = {"schema": '"int"'}
    registry(served, SILTSTONE_REGISTRY_AUTH="me:secret").schema(7)
    assert served.auth == "Basic bWU6c2VjcmV0"
    with pytest.raises(FormatRefused, match="SILTSTONE_REGISTRY_AUTH"):
        HttpRegistry("http://me:secret@localhost", {})
    for url in ("ftp://x", "http://", "https:///path"):
        with pytest.raises(FormatRefused, match="no schema registry"):
            HttpRegistry(url, {})


def test_sp08_the_password_comes_from_a_file_that_is_read_for_each_request(served: Served, tmp_path) -> None:
    served.answers = {"/schemas/ids/7": {"schema": '"int"'}, "/schemas/ids/8": {"schema": '"int"'}}
    file = tmp_path / "auth"
    file.write_text("me:first\n")
    file.chmod(0o440)
    asking = registry(served, SILTSTONE_REGISTRY_AUTH_FILE=str(file))
    asking.schema(7)
    assert served.auth == "Basic " + base64.b64encode(b"me:first").decode()
    file.chmod(0o600)
    file.write_text("me:second\n")
    asking.schema(8)
    assert served.auth == "Basic " + base64.b64encode(b"me:second").decode()
    file.chmod(0o644)
    with pytest.raises(RegistryNotReachable, match="every user of this machine may read") as refused:
        asking.schema(9)
    assert "second" not in str(refused.value)
    with pytest.raises(
        FormatRefused, match="SILTSTONE_REGISTRY_AUTH_FILE: every user of this machine may read"
    ):
        registry(served, SILTSTONE_REGISTRY_AUTH_FILE=str(file))


@pytest.mark.parametrize("host", ["registry.example", "10.0.0.7:8081", "[2001:db8::1]"])
def test_sp09_a_password_does_not_travel_in_clear_to_another_machine(host: str) -> None:
    with pytest.raises(FormatRefused, match="without TLS: write https") as refused:
        HttpRegistry(f"http://{host}", {"SILTSTONE_REGISTRY_AUTH": "me:secret"})
    assert "secret" not in str(refused.value)
    HttpRegistry(f"http://{host}", {})
    HttpRegistry(f"https://{host}", {"SILTSTONE_REGISTRY_AUTH": "me:secret"})
    HttpRegistry("http://localhost:8081", {"SILTSTONE_REGISTRY_AUTH": "me:secret"})


def test_sp09_a_redirect_is_not_followed(served: Served) -> None:
    served.failing = [302]
    served.location = f"{served.url}/elsewhere"
    served.answers["/elsewhere"] = {"schema": '"int"'}
    with pytest.raises(RegistryNotReachable, match=r"302 .*is not followed"):
        registry(served, SILTSTONE_REGISTRY_AUTH="me:secret").schema(7)
    assert served.asked == ["/schemas/ids/7"]


def test_a_schema_that_is_not_there_is_not_asked_again(served: Served) -> None:
    with pytest.raises(SchemaUnknown, match="has no /schemas/ids/9"):
        registry(served).schema(9)
    assert len(served.asked) == 1


def test_a_registry_that_fails_is_asked_again_and_is_not_a_bad_schema(served: Served) -> None:
    served.answers["/schemas/ids/7"] = {"schema": '"int"'}
    served.failing = [503, 500]
    assert registry(served).schema(7).text == '"int"'
    assert len(served.asked) == TRIES
    served.failing = [503] * TRIES
    with pytest.raises(RegistryNotReachable, match="503"):
        registry(served).schema(7)
    served.failing = [401]
    with pytest.raises(RegistryNotReachable, match="401"):
        registry(served).schema(7)


def test_an_answer_that_is_no_registrys(served: Served) -> None:
    served.answers["/schemas/ids/7"] = {"hello": 1}
    with pytest.raises(RegistryNotReachable, match="does not answer"):
        registry(served).schema(7)


def test_nobody_listens() -> None:
    with pytest.raises(RegistryNotReachable, match=r"cannot be asked: .*Connection refused"):
        HttpRegistry("http://127.0.0.1:1", {}, ManualClock()).schema(1)


def test_a_schema_by_its_guid_is_asked_once(served: Served) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    served.answers[f"/schemas/guids/{guid}"] = {"schema": '"int"', "guid": guid}
    registry = HttpRegistry(served.url, {})
    assert registry.schema(guid) == registry.schema(guid) == Schema(FormatKind.AVRO, '"int"')
    assert served.asked == [f"/schemas/guids/{guid}"]
