"""The brokers that ``--broker`` can start, by name."""

from collections.abc import Mapping

from conformance.brokers.apache_kafka import open_apache_kafka
from conformance.brokers.broker import OpenBroker
from conformance.brokers.siltstone import open_siltstone

BROKERS: Mapping[str, OpenBroker] = {"siltstone": open_siltstone, "apache-kafka": open_apache_kafka}
