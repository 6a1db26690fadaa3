"""The plugin as pytest finds it in a project of somebody else: nothing to import, nothing to configure."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import re
    import pytest
    from confluent_kafka import Consumer, Producer

    names, addresses = set(), set()

    def test_orders_arrive(siltstone_broker, siltstone_topic):
        names.add(siltstone_topic)
        addresses.add(siltstone_broker.bootstrap_servers)
        servers = {"bootstrap.servers": siltstone_broker.bootstrap_servers, "log_level": 0}
        producer = Producer(servers)
        producer.produce(siltstone_topic, b"one")
        assert producer.flush(60) == 0
        consumer = Consumer({**servers, "group.id": siltstone_topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([siltstone_topic])
        assert consumer.poll(60).value() == b"one"
        consumer.close()

    def test_another_topic_on_the_same_broker(siltstone_broker, siltstone_topic):
        names.add(siltstone_topic)
        addresses.add(siltstone_broker.bootstrap_servers)
        assert (len(names), len(addresses)) == (2, 1)

    @pytest.mark.parametrize("case", ["a b/c", "ä", "x" * 300])
    def test_names_are_legal(siltstone_topic, case):
        assert re.fullmatch("[A-Za-z0-9._-]{1,249}", siltstone_topic)
        assert siltstone_topic.startswith("test-names-are-legal")
"""
SETTINGS = """
    import pytest
    from confluent_kafka.admin import AdminClient

    @pytest.fixture(scope="session")
    def siltstone_settings():
        return {"broker.num_partitions": "4"}

    def test_a_topic_is_made_as_wished(siltstone_broker, siltstone_make_topic):
        name = siltstone_make_topic(partitions=3)
        admin = AdminClient({"bootstrap.servers": siltstone_broker.bootstrap_servers, "log_level": 0})
        assert name != siltstone_make_topic() and len(admin.list_topics(name, 60).topics[name].partitions) == 3

    def test_settings_are_heeded(siltstone_broker, siltstone_topic):
        admin = AdminClient({"bootstrap.servers": siltstone_broker.bootstrap_servers, "log_level": 0})
        assert len(admin.list_topics(siltstone_topic, 60).topics[siltstone_topic].partitions) == 4
"""

LOGINS = """
    import pytest
    from confluent_kafka import Producer

    @pytest.fixture(scope="session")
    def siltstone_users():
        return {"ada": "pencil", "bob": "brush"}

    @pytest.fixture(scope="session")
    def siltstone_tls():
        return True

    @pytest.fixture(scope="session")
    def siltstone_nodes():
        return 3

    @pytest.mark.parametrize("user", ["ada", "bob"])
    def test_users_log_in(siltstone_broker, siltstone_topic, user):
        assert len(siltstone_broker.addresses) == 3
        config = siltstone_broker.client_config(user)
        assert config["security.protocol"] == "SASL_SSL"
        producer = Producer(config)
        producer.produce(siltstone_topic, b"one")
        assert producer.flush(60) == 0
        assert len(siltstone_broker.records(siltstone_topic)) == 1
"""


def passed(pytester: pytest.Pytester, text: str, count: int) -> None:
    """In a process of its own: ours has the plugin already, and warnings are errors there as here."""
    pytester.makepyfile(text)
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", timeout=60)
    result.assert_outcomes(passed=count)


def test_a_test_has_a_broker_and_a_topic_of_its_own_with_a_legal_name(pytester: pytest.Pytester) -> None:
    passed(pytester, TESTS, 5)


def test_settings_can_be_overridden(pytester: pytest.Pytester) -> None:
    passed(pytester, SETTINGS, 2)


def test_nd11_clusters_of_tests_may_have_users_and_tls(pytester: pytest.Pytester) -> None:
    passed(pytester, LOGINS, 2)


def test_the_fixtures_are_listed_with_what_they_are(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures", timeout=60)
    result.stdout.fnmatch_lines(["siltstone_settings *", "siltstone_broker *", "siltstone_topic *"])


def test_who_does_not_use_it_does_not_pay_for_a_server() -> None:
    """Where siltstone is installed, every run of pytest imports the plugin. ``siltstone.metadata``, which is a function,
    too, is imported with siltstone, and holds no more than a docstring."""
    program = (
        "import sys, pytest; before = set(sys.modules); import siltstone.pytest_plugin.fixtures; "
        "print(sorted({name for name in set(sys.modules) - before if not name.startswith(('siltstone.pytest_plugin', "
        "'siltstone.runtime'))}))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, text=True, capture_output=True)
    loaded = set(eval(done.stdout)) - {"siltstone.model", "siltstone.model.version", "siltstone.metadata"}
    assert not {name for name in loaded if name.startswith(("siltstone.", "asyncio", "msgspec", "numpy"))}, (
        loaded
    )
