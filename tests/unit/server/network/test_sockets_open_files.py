import resource

import pytest

from siltstone.server.network.sockets import OTHER_FILES, allow_connections, leaves_too_few_files

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "warned"),
    [
        (1_024, 1_000_000, (10_000 + OTHER_FILES, 1_000_000), False),
        (1_024, UNLIMITED, (10_000 + OTHER_FILES, UNLIMITED), False),
        (1_024, 4_096, (4_096, 4_096), True),
        (4_096, 4_096, None, True),
        (20_000, 20_000, None, False),
        (UNLIMITED, UNLIMITED, None, False),
    ],
)
def test_the_limit_is_raised_as_far_as_it_may_be(
    soft: int,
    hard: int,
    asked: tuple[int, int] | None,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))

    allow_connections(10_000)

    assert made == ([] if asked is None else [asked])
    assert ("ulimit -n 10512" in caplog.text) is warned


@pytest.mark.parametrize(
    ("soft", "last_taken"), [(1_024, 1_024 - 33), (64, 31), (20, 9), (UNLIMITED, 1 << 30)]
)
def test_the_last_files_are_kept_for_the_node_itself(
    soft: int, last_taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, UNLIMITED))
    assert not leaves_too_few_files(last_taken)
    assert leaves_too_few_files(last_taken + 1) is (soft != UNLIMITED)
