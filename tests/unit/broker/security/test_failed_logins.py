from siltstone.broker.security.failed_logins import FailedLogins


def test_sa20_each_failure_of_a_host_and_user_waits_twice_as_long() -> None:
    failed = FailedLogins()
    waits = [failed.pause_ms("h", "ada", 1_000 * number) for number in range(9)]
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]
    assert failed.pause_ms("h", "bob", 9_000) == failed.pause_ms("other", "ada", 9_000) == 100


def test_failures_are_forgotten_after_a_while_and_by_a_login() -> None:
    failed = FailedLogins()
    failed.pause_ms("h", "ada", 0)
    assert failed.pause_ms("h", "ada", 59_999) == 200
    assert failed.pause_ms("h", "ada", 59_999 + 60_000) == 100
    failed.pause_ms("h", "ada", 120_000)
    failed.succeeded("h", "ada")
    assert failed.pause_ms("h", "ada", 120_000) == 100


def test_the_table_has_a_limit() -> None:
    failed = FailedLogins(count_max=3)
    failed.pause_ms("h", "first", 0)
    for number in range(3):
        failed.pause_ms("h", f"made-up-{number}", 1)
    assert len(failed) == 3
    assert failed.pause_ms("h", "first", 2) == 100, "the oldest was forgotten"
