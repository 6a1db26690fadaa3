"""``python -m conformance.drivers.kafka_python``: see ``conformance.driving``."""

import kafka

from conformance.drivers.kafka_python import admin, groups, producing, reading, secured
from conformance.drivers.kafka_python.clients import refusal
from conformance.drivers.serving import Repertoire, serve

if __name__ == "__main__":
    serve(
        Repertoire(
            kafka.__version__,
            {
                **producing.SCENARIOS,
                **reading.SCENARIOS,
                **groups.SCENARIOS,
                **admin.SCENARIOS,
                **secured.SCENARIOS,
            },
            refusal,
            {**groups.LACKS, **secured.LACKS},
            {**producing.PARTLY, **admin.PARTLY},
        )
    )
