"""What a round of stream set objects tells, as a watch hears it."""

from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.report import CompactionProgress, OnProgress


def telling(watch: Watch, live_bytes: int = 0) -> OnProgress:
    def tell(told: CompactionProgress) -> None:
        if told.step != "commit":  # it stands then: nothing can be cancelled any more
            watch.steps(told.step, live_bytes)(told.done, told.total)

    return tell
