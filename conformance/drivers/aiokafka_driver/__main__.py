"""``python -m conformance.drivers.aiokafka_driver``: see ``conformance.driving``."""

import aiokafka

from conformance.drivers.aiokafka_driver import admin, groups, producing, reading, secured
from conformance.drivers.aiokafka_driver.clients import refusal
from conformance.drivers.serving import Repertoire, serve

if __name__ == "__main__":
    serve(
        Repertoire(
            aiokafka.__version__,
            {
                **producing.SCENARIOS,
                **reading.SCENARIOS,
                **groups.SCENARIOS,
                **admin.SCENARIOS,
                **secured.SCENARIOS,
            },
            refusal,
            {**groups.LACKS, **admin.LACKS},
            {**producing.PARTLY, **groups.PARTLY, **admin.PARTLY, **secured.PARTLY},
        )
    )
