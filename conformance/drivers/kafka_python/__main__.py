"""``python -m conformance.drivers.kafka_python``: see ``conformance.driving``."""

import kafka

from conformance.drivers.kafka_python import admin, groups, producing, reading
from conformance.drivers.kafka_python.clients import refusal
from conformance.drivers.serving import serve

if __name__ == "__main__":
    serve(
        kafka.__version__,
        {**producing.SCENARIOS, **reading.SCENARIOS, **groups.SCENARIOS, **admin.SCENARIOS},
        groups.LACKS,
        refusal,
    )
