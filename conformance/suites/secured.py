"""Makes copies of the suites that log in find a broker with TLS, logins and rights.

What these suites change with Kafka's own tools in a container is changed by an administrator's client instead. A broker
of Siltstone takes PLAIN over TLS only, so suites that use it without TLS are given TLS.
"""

import re
import shutil
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from conformance.secured import LOGIN, SECURE, USERS, Grounds
from conformance.suites.preparing import GIVEN_SERVER, pytest_of
from conformance.suites.suite import Prepared, SuiteMissing
from oracles.broker_process import HOST

SECONDS_MAX = 30

AIOKAFKA_ADMINISTRATION = """

_ADMIN = {{"bootstrap.servers": "{secure}", "security.protocol": "SSL", "ssl.ca.location": "{authority}"}}


def _bindings(cluster=None, topic=None, group=None, transactional_id=None, allow_principal=None, deny_principal=None,
              operation="All", **_):
    from confluent_kafka.admin import (
        AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType,
    )
    named = {{"TOPIC": topic, "GROUP": group, "TRANSACTIONAL_ID": transactional_id,
              "BROKER": "kafka-cluster" if cluster else None}}
    permission = AclPermissionType.ALLOW if allow_principal else AclPermissionType.DENY
    return [
        AclBinding(ResourceType[kind], name, ResourcePatternType.LITERAL, f"User:{{allow_principal or deny_principal}}",
                   "*", AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", operation).upper()], permission)
        for kind, name in named.items() if name
    ]


@functools.cache
def _admin():
    from confluent_kafka.admin import AdminClient
    return AdminClient(_ADMIN)


class _Acls:
    def __init__(self):
        self._active = []
        # Kafka is run with allow.everyone.if.no.acl.found there. No general right to create topics: a test denies
        # that for the cluster only, and a right on the topic would be enough.
        for operation in ("DESCRIBE", "WRITE", "READ"):
            self._create(allow_principal="test", operation=operation, topic="*")
        self._create(allow_principal="test", group="*", transactional_id="*", cluster=True)
        self._active.clear()

    def _create(self, **asked):
        bindings = _bindings(**asked)
        for done in _admin().create_acls(bindings).values():
            done.result(10)
        self._active += bindings

    add_acl = _create

    def list_acl(self, principal=None): ...

    def cleanup(self):
        from confluent_kafka.admin import AclBindingFilter
        filters = [AclBindingFilter(each.restype, each.name, each.resource_pattern_type, each.principal, each.host,
                                    each.operation, each.permission_type) for each in self._active]
        for done in _admin().delete_acls(filters).values() if filters else ():
            done.result(10)
        self._active.clear()


class _Users:
    def add_scram_user(self, username, password):
        from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
        infos = [ScramCredentialInfo(each, 8192) for each in (
            ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)]
        asked = [UserScramCredentialUpsertion(username, each, password.encode()) for each in infos]
        for each in asked:
            for done in _admin().alter_user_scram_credentials([each]).values():
                done.result(10)


@pytest.fixture(scope="session")
def acl_manager():
    _Users().add_scram_user("test", "test")
    return _Acls()


@pytest.fixture(scope="session")
def kafka_config():
    return _Users()


@pytest.fixture(scope="session")
def ssl_folder():
    import pathlib
    return pathlib.Path("{folder}")
"""

KAFKA_PYTHON_BROKER = """

class _GivenBroker:
    \"\"\"What the tests ask of their fixture, of a broker that is there.\"\"\"

    host, ssl_dir, partitions, replicas = "localhost", "{folder}", 4, 1
    broker_user, broker_password, ssl_enabled = "{user}", "{password}", True
    zookeeper, _enrich_client_params = None, KafkaFixture._enrich_client_params

    def __init__(self, transport="SSL", sasl_mechanism=None, **_):
        self.transport, self.sasl_mechanism = transport.replace("SASL_PLAINTEXT", "SASL_SSL"), sasl_mechanism
        self.sasl_enabled = sasl_mechanism is not None
        self.port = {login} if self.sasl_enabled else {secure}
        self.child = self

    def bootstrap_server(self):
        return f"localhost:{{self.port}}"

    def get_topic_names(self):
        with contextlib.closing(KafkaAdminClient(**client_params(self, "topics"))) as admin:
            return admin.list_topics()

    def start(self):
        pass

    close = dump_logs = start


KafkaFixture.instance = staticmethod(lambda _, **given: _GivenBroker(**given))
"""


def aiokafka(copy: Path, address: str, grounds: Grounds) -> Prepared:
    """Its tests of logins and rights, and those of a producer and a consumer over TLS. GSSAPI there is none."""
    (copy / "aiokafka").rename(copy / "sources")
    host, _, port = address.rpartition(":")
    folder = copy / "certificates"
    folder.mkdir()
    for name, file in (("ca.crt", grounds.authority), ("client.crt", grounds.client.certificate),
                       ("client.key", grounds.client.key)):  # fmt: skip
        (folder / name).write_bytes(file.read_bytes())
    given = GIVEN_SERVER.format(host=host, port=port)
    for name, listener in (("ssl_port", SECURE), ("sasl_ssl_port", LOGIN)):
        given += f"_GivenServer.{name} = {grounds.ports[listener]}\n"
    secure = f"{host}:{grounds.ports[SECURE]}"
    given += AIOKAFKA_ADMINISTRATION.format(secure=secure, authority=grounds.authority, folder=folder)
    conftest = copy / "tests" / "conftest.py"
    conftest.write_text("import functools\nimport re\n" + conftest.read_text() + given)
    logins = copy / "tests" / "test_sasl.py"
    text = logins.read_text().replace("kafka_sasl_plain_port", "kafka_sasl_ssl_port")
    text = re.sub(
        'security_protocol="SASL_PLAINTEXT"',
        'security_protocol="SASL_SSL", ssl_context=self.create_ssl_context()',
        text,
    )
    logins.write_text(text)
    tests = ("tests/test_sasl.py", "tests/test_producer.py", "tests/test_consumer.py", "-k",
             "(TestKafkaSASL and not gssapi) or test_producer_ssl or test_ssl_consume",
             "--docker-image=x:2.8.1")  # fmt: skip
    return pytest_of(copy, tests, {"PYTHONPATH": str(copy)})


def kafka_python(copy: Path, address: str, grounds: Grounds) -> Prepared:
    """Its tests of a login and of TLS; the tests of a login get TLS too. They are those of the branch of
    releases: in the development sources (a3b3836f) no producer, consumer or administrator sends anything over TLS,
    because ``KafkaSSLTransport.write`` returns no count of bytes and their metrics add it."""
    user, password = _new_user(grounds)
    folder = copy / "certificates"
    folder.mkdir()
    (folder / "ca-cert").write_bytes(grounds.authority.read_bytes())
    with (copy / "test" / "integration" / "conftest.py").open("a") as conftest:
        conftest.write(KAFKA_PYTHON_BROKER.format(
            folder=folder, user=user, password=password, login=grounds.ports[LOGIN], secure=grounds.ports[SECURE],
        ))  # fmt: skip
    tests = (
        "test/integration/test_sasl_integration.py",
        "test/integration/test_ssl_integration.py",
        "--timeout=120",
    )
    return pytest_of(copy, tests, {"KAFKA_VERSION": "4.0.0", "PYTHONPATH": str(copy)})


def franz_go(copy: Path, address: str, grounds: Grounds) -> Prepared:
    """Its tests of SCRAM, to which TLS is added."""
    user, password = _new_user(grounds)
    tests = copy / "pkg" / "kgo" / "client_test.go"
    text = tests.read_text()
    for login in ("SASL(saslScram),", "SASL(badAuth.AsSha256Mechanism()),"):
        text = text.replace(login, f"{login} DialTLSConfig(testCert),")
    tests.write_text(text)
    given = {
        "KGO_SEEDS": address, "KGO_TEST_SCRAM": f"{user}:{password}", "GOFLAGS": "-mod=mod",
        "KGO_TEST_SCRAM_SEEDS": f"{HOST}:{grounds.ports[LOGIN]}", "KGO_TEST_TLS": f"ca:{grounds.authority}",
    }  # fmt: skip
    command = ("go", "test", "./pkg/kgo", "-run", "TestSCRAM", "-v", "-count=1", "-timeout", "5m")
    return Prepared(copy, command, given)


def sarama(copy: Path, address: str, grounds: Grounds) -> Prepared:
    """Its example program with a login. Its tests of logins meet brokers of their own only, so they say nothing here.
    The program takes the authority for TLS with a certificate of the client only."""
    if not shutil.which("go"):
        raise SuiteMissing("go is not installed")
    user, password = _new_user(grounds)
    folder = copy / "examples" / "sasl_scram_client"
    options = (
        f"-brokers {HOST}:{grounds.ports[LOGIN]} -username {user} -topic of-sarama -tls -ca {grounds.authority} "
        f"-certificate {grounds.client.certificate} -key {grounds.client.key}"
    )
    each = f"./client {options} -algorithm sha256 -passwd"
    consume = f"timeout -s INT 10 {each.replace('sha256', 'sha512')} {password} -mode consume"
    script = f"""go build -o client . || exit
        for each in sha256 sha512; do ./client {options} -passwd {password} -algorithm $each; done
        {each} not-it
        {consume}"""
    return Prepared(folder, ("sh", "-c", script), {"GOFLAGS": "-mod=mod"})


def _new_user(grounds: Grounds) -> tuple[str, str]:
    """Creates a user who may do everything. Returns its name and its password."""
    user = "ada"
    admin = AdminClient({
        "bootstrap.servers": f"{HOST}:{grounds.ports[SECURE]}", "security.protocol": "SSL",
        "ssl.ca.location": str(grounds.authority),
    })  # fmt: skip
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 8192)
        asked = UserScramCredentialUpsertion(user, info, USERS[user].encode())
        for done in admin.alter_user_scram_credentials([asked]).values():
            done.result(SECONDS_MAX)
    return user, USERS[user]
