from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.reading.read_ahead import REQUESTS_PER_WINDOW, ReadAhead, SequentialReaders
from siltstone.stream_engine.settings import ReadSettings

SETTINGS = ReadSettings(
    block_cache_bytes_max=10_000,
    read_ahead_bytes_min=100,
    read_ahead_bytes_max=3_200,
    sequential_readers_max=3,
)


def sequential(clock: ManualClock | None = None) -> ReadAhead:
    ahead = ReadAhead(SETTINGS, clock or ManualClock())
    ahead.reads_on()
    return ahead


def grown(clock: ManualClock | None = None) -> ReadAhead:
    ahead = sequential(clock)
    for _ in range(10):
        ahead.block_was_used()
        ahead.reads_on()
    return ahead


def test_the_first_read_of_a_reader_fetches_nothing_ahead():
    ahead = ReadAhead(SETTINGS, ManualClock())
    assert not ahead.is_sequential
    assert ahead.bytes_to_fetch(0) == 0


def test_it_starts_at_the_minimum_and_doubles_while_it_is_used_up_to_the_maximum():
    ahead = sequential()
    windows = [ahead.bytes_to_fetch(0)]
    for _ in range(7):
        ahead.block_was_used()
        ahead.block_was_used()
        ahead.reads_on()
        windows.append(ahead.bytes_to_fetch(0))
    assert windows == [100, 200, 400, 800, 1600, 3200, 3200, 3200]


def test_it_does_not_grow_unused():
    ahead = sequential()
    ahead.reads_on()
    ahead.reads_on()
    assert ahead.window_bytes == 100


def test_nothing_is_fetched_until_a_request_fits_into_the_window():
    ahead = grown()
    request = 3200 // REQUESTS_PER_WINDOW
    assert ahead.request_bytes == request
    for number in range(8):
        ahead.fetched(end_offset=10 * (number + 1), size_bytes=request)
    assert ahead.until_offset == 80
    assert ahead.bytes_to_fetch(9) == 0
    assert ahead.bytes_to_fetch(10) == request
    assert ahead.bytes_to_fetch(35) == 3 * request


def test_a_window_smaller_than_a_block_waits_until_the_block_is_read():
    ahead = sequential()
    ahead.fetched(end_offset=10, size_bytes=5000)
    assert ahead.bytes_to_fetch(9) == 0
    assert ahead.bytes_to_fetch(10) == 100


def test_wasted_blocks_end_it_for_a_while():
    clock = ManualClock()
    ahead = grown(clock)
    ahead.fetched(10, 1000)
    ahead.block_was_wasted()
    assert ahead.bytes_to_fetch(0) == 0
    clock.advance_ms(SETTINGS.read_ahead_pause_ms - 1)
    assert ahead.bytes_to_fetch(0) == 0
    clock.advance_ms(1)
    assert ahead.bytes_to_fetch(0) == SETTINGS.read_ahead_bytes_min
    assert ahead.until_offset == 0


def test_giving_up_before_it_began_does_not_begin_it():
    ahead = ReadAhead(SETTINGS, ManualClock())
    ahead.give_up()
    assert not ahead.is_sequential


def test_a_reader_is_known_by_where_it_stopped():
    readers = SequentialReaders(SETTINGS, ManualClock())
    ahead = readers.take(1, 0)
    readers.keep(1, 50, ahead)
    assert readers.take(2, 50) is not ahead
    assert readers.take(1, 49) is not ahead
    assert readers.take(1, 50) is ahead
    assert ahead.is_sequential
    assert not readers.take(1, 50).is_sequential


def test_the_reader_idle_for_longest_is_forgotten():
    readers = SequentialReaders(SETTINGS, ManualClock())
    kept = [readers.take(1, 0) for _ in range(4)]
    for offset, ahead in enumerate(kept):
        readers.keep(1, offset, ahead)
    assert len(readers) == 3
    assert readers.take(1, 0) is not kept[0]
    assert readers.take(1, 1) is kept[1]


def test_a_reader_that_stands_still_is_not_the_one_idle_for_longest():
    readers = SequentialReaders(SETTINGS, ManualClock())
    for offset in (0, 1, 2):
        readers.keep(1, offset, ReadAhead(SETTINGS, ManualClock()))
    again = readers.take(1, 0)
    readers.keep(1, 0, again)
    readers.keep(1, 3, ReadAhead(SETTINGS, ManualClock()))
    assert readers.take(1, 0) is again
