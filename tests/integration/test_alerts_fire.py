"""A real Prometheus with the shipped rules beside a cluster in which each process is killed and each part hangs once.

The shipped rules wait for minutes and hours. Here they are shortened (``support.metrics.prometheus_server``). The test
prints the table of docs/metrics.md: the time from the fault until the condition of an alert held, as it was measured,
plus the wait that the shipped rule has beyond that of the shortened one.
"""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from support.broker.cluster_clients import until
from support.metrics.alerted_cluster import SECONDS_MAX, AlertedCluster
from support.metrics.prometheus_server import Alert, longer_by
from support.processes.tried import RecordTried

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BROKERS, SERVICE, NOBODY = (0, 1), (2,), ()


class Raises(NamedTuple):
    """An alert of each of these processes, by their place among the targets; or one without an instance."""

    name: str
    of: tuple[int, ...] = NOBODY
    kind: str = ""

    def alerts(self, targets: list[str]) -> set[Alert]:
        return {Alert(self.name, targets[number], self.kind) for number in self.of} or {
            Alert(self.name, "", self.kind)
        }

    @property
    def words(self) -> str:
        who = {NOBODY: "", SERVICE: " of maintenance"}.get(
            self.of, " of each broker" if len(self.of) > 1 else ""
        )
        return f"`{self.name}`{who}"


class Fault(NamedTuple):
    """``hurt`` returns what heals it."""

    what: str
    hurt: Callable[[AlertedCluster], Callable[[], object]]
    raises: tuple[Raises, ...]


def killed(part: str) -> Callable[[AlertedCluster], Callable[[], object]]:
    def hurt(cluster: AlertedCluster) -> Callable[[], object]:
        server = getattr(cluster, part)
        server.kill()
        return server.start

    return hurt


def silent(part: str) -> Callable[[AlertedCluster], Callable[[], object]]:
    def hurt(cluster: AlertedCluster) -> Callable[[], object]:
        opened = ExitStack()
        stands_still: AbstractContextManager[None] = getattr(cluster, part).silent()
        opened.enter_context(stands_still)
        return opened.close

    return hurt


def broker(number: int, sent: signal.Signals) -> Callable[[AlertedCluster], Callable[[], object]]:
    """A broker that hung has been failed over, and is started again."""

    def hurt(cluster: AlertedCluster) -> Callable[[], object]:
        cluster.brokers[number].signal(sent)
        return lambda: cluster.start_broker_again(number)

    return hurt


def stopped_service(cluster: AlertedCluster) -> Callable[[], object]:
    cluster.service.signal(signal.SIGSTOP)
    return lambda: cluster.service.signal(signal.SIGCONT)


def hanging_retention(cluster: AlertedCluster) -> Callable[[], object]:
    cluster.service.hang_file.touch()
    return cluster.service.hang_file.unlink


def scraped(places: Iterable[int]) -> Callable[[AlertedCluster], Callable[[], object]]:
    def hurt(cluster: AlertedCluster) -> Callable[[], object]:
        cluster.prometheus.scrape([cluster.targets[place] for place in places])
        return lambda: cluster.prometheus.scrape(cluster.targets)

    return hurt


WITHOUT_METADATA = (
    Raises("SiltstoneMetadataSilent", BROKERS),
    Raises("SiltstoneNotReady", SERVICE),
    Raises("SiltstoneUploadsFail", BROKERS),
    Raises("SiltstoneMaintenanceIsLate", SERVICE, "sweep"),
    Raises("SiltstoneUncommittedForLong", BROKERS),
    Raises("SiltstoneNoMaintenance", kind="sweep"),
)
WITHOUT_BUCKET = (
    Raises("SiltstoneBucketSilent", BROKERS),
    Raises("SiltstoneNotReady", BROKERS),
    Raises("SiltstoneUploadsFail", BROKERS),
    Raises("SiltstoneUncommittedForLong", BROKERS),
)
WITHOUT_MAINTENANCE = (Raises("SiltstoneDown", SERVICE), Raises("SiltstoneNoMaintenance", kind="sweep"))

FAULTS = (
    Fault("PostgreSQL is killed", killed("postgres"), WITHOUT_METADATA),
    Fault("PostgreSQL hangs", silent("postgres"), WITHOUT_METADATA),
    Fault("the S3 server is killed", killed("s3"), WITHOUT_BUCKET),
    Fault("the S3 server hangs", silent("s3"), WITHOUT_BUCKET),
    Fault(
        "a kind of maintenance hangs (retention)",
        hanging_retention,
        (
            Raises("SiltstoneMaintenanceIsLate", SERVICE, "sweep"),
            Raises("SiltstoneNoMaintenance", kind="retention"),
            Raises("SiltstoneMaintenanceHangs", SERVICE, "retention"),
        ),
    ),
    Fault("the maintenance service is killed", killed("service"), WITHOUT_MAINTENANCE),
    Fault("the maintenance service hangs", stopped_service, WITHOUT_MAINTENANCE),
    Fault("Prometheus loses a target", scraped((0, 2)), (Raises("SiltstoneTargetGone"),)),
    Fault("Prometheus loses all targets", scraped(()), (Raises("SiltstoneTargetGone"),)),
    *(
        Fault(f"broker {number} {happens}", broker(number, sent), (Raises("SiltstoneDown", (number,)),))
        for happens, sent in (("is killed", signal.SIGKILL), ("hangs", signal.SIGSTOP))
        for number in BROKERS
    ),
)
"""Brokers come last: one that was started again leads no partition, so an outage of a server would show nothing."""


def raised(cluster: AlertedCluster, wanted: set[Alert], begun: float) -> dict[Alert, float]:
    """Returns after how many seconds each of the wanted alerts fires by the shipped rules."""
    after: dict[Alert, float] = {}

    def all_fire() -> bool:
        for active in cluster.prometheus.active():
            if active.fires:
                after.setdefault(active.alert, active.since - begun + longer_by(active.alert))
        return after.keys() >= wanted

    until(all_fire, lambda: f"not raised: {wanted - after.keys()}, {after=}\n{cluster.logs}", SECONDS_MAX)
    return after


def duration_words(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def row(fault: Fault, after: dict[Alert, float], targets: list[str], ended: float) -> str:
    times = {each.words: max(after[alert] for alert in each.alerts(targets)) for each in fault.raises}
    shown = ", ".join(
        f"{words} {duration_words(times[words])}" for words in sorted(times, key=lambda each: times[each])
    )
    return f"| {fault.what} | {shown} | {duration_words(ended)} |"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertedCluster]:
    with AlertedCluster(tmp_path_factory.mktemp("alerted")) as cluster:
        yield cluster


ON_THE_CLUSTER = (pytest.mark.s3, pytest.mark.nightly, pytest.mark.xdist_group("alerts-fire"))


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.what.replace(" ", "-"), marks=ON_THE_CLUSTER) for fault in FAULTS]
)
def test_a_process_that_dies_and_a_part_that_hangs_raise_their_alerts_until_they_are_back(
    cluster: AlertedCluster, fault: Fault, record_tried: RecordTried
) -> None:
    cluster.wait_until_well()
    wanted = {alert for each in fault.raises for alert in each.alerts(cluster.targets)}
    begun = time.time()
    heal = fault.hurt(cluster)
    try:
        after = raised(cluster, wanted, begun)
    finally:
        heal()
    healed = time.time()
    cluster.wait_until_well()
    record_tried("faults", 1)
    print(row(fault, after, cluster.targets, time.time() - healed))


@pytest.mark.s3
@pytest.mark.nightly
@pytest.mark.xdist_group("alerts-fire")
def test_the_producer_that_worked_through_all_faults_has_each_record_acknowledged(
    cluster: AlertedCluster, record_tried: RecordTried
) -> None:
    cluster.traffic.stop()
    assert cluster.traffic.acknowledged > 0
    record_tried("records", cluster.traffic.acknowledged)


def test_the_page_has_a_row_for_each_fault_with_its_alerts() -> None:
    rows = {
        line.split(" | ")[0].removeprefix("| "): line
        for line in PAGE.read_text().splitlines()
        if "| " in line
    }
    for fault in FAULTS:
        assert all(each.words in rows[fault.what] for each in fault.raises), fault.what
