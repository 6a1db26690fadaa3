"""``python -m conformance.drivers.kafka_tools``: see ``conformance.driving``."""

from conformance.drivers.kafka_tools.scenarios import SCENARIOS, refusal
from conformance.drivers.serving import Repertoire, serve
from oracles.java_artifacts import KAFKA_VERSION

if __name__ == "__main__":
    serve(Repertoire(KAFKA_VERSION, SCENARIOS, refusal))
