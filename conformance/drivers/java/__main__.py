"""``python -m conformance.drivers.java``: see ``conformance.driving``."""

from conformance.drivers.java import admin, groups, producing, reading, secured
from conformance.drivers.java.clients import on_machine, refusal
from conformance.drivers.serving import Repertoire, serve
from oracles.java_artifacts import APACHE_KAFKA, KAFKA_VERSION, fetch_jars
from oracles.java_machine import running_java_machine

if __name__ == "__main__":
    scenarios = {
        **producing.SCENARIOS,
        **reading.SCENARIOS,
        **groups.SCENARIOS,
        **admin.SCENARIOS,
        **secured.SCENARIOS,
    }
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        run = {name: on_machine(machine, scenario) for name, scenario in scenarios.items()}
        serve(Repertoire(KAFKA_VERSION, run, refusal, admin.LACKS))
