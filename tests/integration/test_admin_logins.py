"""Admin listeners of a real broker with TLS and a login, with a token, with certificates, and with rights."""

import base64
import http.client
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import siltstone
from siltstone.metadata.acls import CreateAcls, SetAuthorization
from siltstone.metadata.commands import Command
from siltstone.model.access import Principal
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.server.kafka_node import KafkaNode
from siltstone.server.network.addresses import InvalidListener
from support.processes.cli import run
from support.security.rights import allow
from support.tls.authority import Authority, Pair

TOKEN = "t0ken-of-the-scrape"
USERS = {"ada": "pencil", "root": "stamp"}


class Admin:
    """The admin listener of a broker, and its clients. ``pair``: the certificate that they show."""

    def __init__(self, broker: siltstone.Broker, authority: Authority) -> None:
        async def url(node: KafkaNode) -> str:
            assert node.admin is not None
            return node.admin.urls[0]

        self.broker = broker
        self.url = broker._thread().ask(url)
        self._authority = authority

    def get(
        self, path: str, user: str = "", *, token: str = "", pair: Pair | None = None
    ) -> tuple[int, str, str]:
        """Returns status, body, and the challenge. ``user``: NAME:PASSWORD."""
        headers: Mapping[str, str] = {}
        if user:
            headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        elif token:
            headers = {"Authorization": f"Bearer {token}"}
        context = ssl.create_default_context(cafile=self._authority.file)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection(
            self.url.removeprefix("https://"), timeout=60, context=context
        )
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers.get("WWW-Authenticate", "")
        finally:
            connection.close()

    def does(self, *commands: Command) -> None:
        async def do(node: KafkaNode) -> None:
            for command in commands:
                await node.node.metadata.execute(command)

        self.broker._thread().ask(do)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def files(authority: Authority) -> dict[str, str]:
    return {"admin.listeners": "127.0.0.1:0", **authority.issue("admin").settings("ADMIN")}


@pytest.fixture
def secured(tmp_path: Path, authority: Authority) -> Iterator[Admin]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    settings = files(authority) | {
        "listener.ADMIN.protocol": "SASL_SSL",
        "admin.metrics_token_file": str(token),
    }
    with siltstone.Broker(tmp_path / "store", users=USERS, settings=settings) as broker:
        yield Admin(broker, authority)


def test_wc04_users_and_tokens_are_let_in_and_probes_need_neither(secured: Admin) -> None:
    assert secured.get("/livez")[:2] == (200, "ok\n")
    assert secured.get("/readyz")[:2] == (200, "ok\n")
    for path in ("/metrics", "/clients"):
        status, body, challenge = secured.get(path)
        assert (status, challenge.partition(" ")[0]) == (401, "Basic"), body
        assert secured.get(path, "ada:wrong")[0] == 401
        assert secured.get(path, "nobody:pencil")[0] == 401
        assert secured.get(path, "ada:pencil")[0] == 200
    assert "siltstone_state" in secured.get("/metrics", token=TOKEN)[1]
    assert secured.get("/clients", token=TOKEN)[0] == 401
    assert secured.get("/metrics", token="x" * 20)[0] == 401


def test_wc03_with_authorization_a_user_needs_describe_of_the_cluster(secured: Admin) -> None:
    secured.does(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
    status, body, _ = secured.get("/metrics", "ada:pencil")
    assert (status, body) == (
        403,
        "User:ada may not see the cluster: siltstone acls add User:ada describe --cluster\n",
    )
    assert secured.get("/metrics", "root:stamp")[0] == 200
    grant = allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, principal=Principal("ada"))
    secured.does(CreateAcls((grant,)))
    assert secured.get("/metrics", "ada:pencil")[0] == 200
    assert secured.get("/readyz")[:2] == (200, "ok\n")


def test_the_command_logs_in_by_its_client_config(
    secured: Admin, tmp_path: Path, authority: Authority
) -> None:
    config = tmp_path / "ada.properties"
    login = "security.protocol=SASL_SSL\nsasl.username=ada\nsasl.password=pencil\n"
    config.write_text(f"{login}ssl.ca.location={authority.file}\n")
    config.chmod(0o600)
    asked = ("clients", "--json", "--admin", secured.url, "--client-config", config)
    assert run(*asked).json["brokers"][0]["node_id"] == 0
    secured.does(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
    refused = run(*asked)
    assert (refused.status, "siltstone acls add User:ada describe --cluster" in refused.err) == (2, True), (
        refused.err
    )
    in_clear = run("clients", "--admin", "broker.example:9644", "--client-config", config)
    assert "would get the password in clear" in in_clear.err


def test_the_owner_of_a_certificate_needs_the_right_while_authorization_is_on(authority: Authority) -> None:
    settings = files(authority) | {
        "listener.ADMIN.protocol": "SSL",
        "listener.ADMIN.tls_client_ca_file": str(authority.file),
        "listener.ADMIN.tls_client_auth": "required",
    }
    with siltstone.Broker(settings=settings) as broker:
        admin, pair = Admin(broker, authority), authority.issue("monitor")
        assert admin.get("/metrics", pair=pair)[0] == 200
        admin.does(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
        status, body, _ = admin.get("/metrics", pair=pair)
        assert status == 403
        name = Principal(body.partition(" ")[0].removeprefix("User:"))
        admin.does(CreateAcls((allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, principal=name),)))
        assert admin.get("/metrics", pair=pair)[0] == 200


def test_wc01_a_login_in_clear_on_the_network_is_refused_and_one_with_tls_is_not(
    authority: Authority,
) -> None:
    clear = {"admin.listeners": "0.0.0.0:0", "listener.ADMIN.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(InvalidListener, match="passwords would cross the network in clear; use SASL_SSL"):
        siltstone.Broker(settings=clear).start()
    secure = files(authority) | {"admin.listeners": "0.0.0.0:0", "listener.ADMIN.protocol": "SASL_SSL"}
    with siltstone.Broker(settings=secure, users=USERS):
        pass
