import pytest

from siltstone.console.watchers import TooManyWatch, Watchers
from siltstone.model.console_limits import CONSOLE_WATCHER_MS, CONSOLE_WATCHERS_MAX
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness


def test_wc13_the_twenty_first_waits_until_another_page_has_loaded_nothing_for_a_while():
    clock = ManualClock()
    watchers = Watchers(clock, seeded_randomness(1))
    for number in range(CONSOLE_WATCHERS_MAX):
        watchers.admit(f"page {number}")
    with pytest.raises(TooManyWatch, match=r"^20 other pages follow .* continues within 15 seconds$"):
        watchers.admit("one more")
    clock.advance_ms(CONSOLE_WATCHER_MS - 1)
    for number in range(1, CONSOLE_WATCHERS_MAX):
        watchers.admit(f"page {number}")  # a page that follows already is never refused
    clock.advance_ms(1)
    watchers.admit("one more")
    with pytest.raises(TooManyWatch):
        watchers.admit("page 0")
    clock.advance_ms(CONSOLE_WATCHER_MS - 1)
    assert len(watchers) == 1, "only the newest has loaded lately"


def test_pages_have_names_of_their_own_and_a_long_one_takes_no_room():
    watchers = Watchers(ManualClock(), seeded_randomness(1))
    assert watchers.new_name() != watchers.new_name()
    assert len(watchers) == 0, "a page that was only drawn watches nothing"
    watchers.admit("x" * 10_000)
    watchers.admit("x" * 9_000)
    assert len(watchers) == 1
