"""``python -m conformance.drivers.confluent``: see ``conformance.driving``."""

import confluent_kafka

from conformance.drivers.confluent import admin, groups, producing, reading, secured
from conformance.drivers.confluent.clients import refusal
from conformance.drivers.serving import Repertoire, serve

if __name__ == "__main__":
    serve(
        Repertoire(
            f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
            {
                **producing.SCENARIOS,
                **reading.SCENARIOS,
                **groups.SCENARIOS,
                **admin.SCENARIOS,
                **secured.SCENARIOS,
            },
            refusal,
            partly=admin.PARTLY,
        )
    )
