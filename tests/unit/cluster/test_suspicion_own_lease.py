from siltstone.cluster.suspicion import OwnLease
from siltstone.runtime.clock import boottime_ms


class Clock:
    now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


def test_the_lease_lasts_for_a_session_from_the_sending_of_the_last_beat() -> None:
    clock = Clock()
    lease = OwnLease(clock)
    assert not lease.is_held, "before the first beat"
    sent_ms = lease.now_ms()
    clock.now_ms = 3_000.0
    lease.renewed(sent_ms)
    clock.now_ms = 6_000.0
    assert lease.is_held
    clock.now_ms = 6_000.1
    assert not lease.is_held, "although the answer came two seconds later"


def test_n22_the_time_of_a_stopped_process_or_a_suspended_machine_counts() -> None:
    clock = Clock()
    lease = OwnLease(clock)
    lease.renewed(lease.now_ms())
    clock.now_ms += 20_000
    assert not lease.is_held
    lease.renewed(lease.now_ms())
    lease.confirmed(lease.times_over)
    assert lease.is_held


def test_a_lease_that_was_over_is_not_held_before_the_log_was_read_after_the_next_beat() -> None:
    clock = Clock()
    lease = OwnLease(clock)
    lease.renewed(lease.now_ms())
    assert lease.is_held, "the first beat of a life comes right after its registration"
    clock.now_ms += 6_000
    before = lease.times_over
    lease.renewed(lease.now_ms())
    assert not lease.is_held, "another node may have fenced this one"
    lease.confirmed(before)
    assert not lease.is_held, "the read was begun before the beat"
    lease.confirmed(lease.times_over)
    assert lease.is_held


def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    clock = Clock()
    lease = OwnLease(clock)
    lease.renewed(1_000.0)
    lease.renewed(500.0)
    clock.now_ms = 6_000.0
    assert lease.is_held


def test_n07_the_machine_s_own_clock_is_not_the_wall_clock() -> None:
    lease = OwnLease(boottime_ms)
    before_ms = lease.now_ms()
    lease.renewed(before_ms)
    assert lease.is_held
    assert before_ms <= boottime_ms() < 1e12, "milliseconds since the start of the machine, not since 1970"
