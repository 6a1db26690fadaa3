"""Read-ahead: blocks are fetched before a reader reads them, within one window for each sequential reader.

A sequential reader is identified only by its stream id and the offset at which its next read begins. Its first read
fetches nothing ahead. A read that begins where the last one ended opens the window; each further one doubles it, up
to a maximum, if blocks fetched ahead were used meanwhile. When a block fetched ahead is evicted unread, the cache is
too small for all readers, and read-ahead pauses for this one.
"""

from collections import OrderedDict, deque

from siltstone.runtime.clock import Clock
from siltstone.stream_engine.settings import ReadSettings

REQUESTS_PER_WINDOW = 8


class ReadAhead:
    """The window of one reader. ``until_offset`` is the end offset of the last block fetched ahead."""

    def __init__(self, settings: ReadSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._ahead: deque[tuple[int, int]] = deque()
        self._bytes_ahead = 0
        self._was_used = False
        self._paused_until_ms = float("-inf")
        self.window_bytes = 0
        self.until_offset = 0
        self.is_fetching = False

    @property
    def is_sequential(self) -> bool:
        """Whether a read has started where the read before it ended."""
        return self.window_bytes > 0

    def reads_on(self) -> None:
        """A read begins where the last one ended."""
        settings = self._settings
        if not self.is_sequential:
            self.window_bytes = settings.read_ahead_bytes_min
        elif self._was_used:
            self.window_bytes = min(2 * self.window_bytes, settings.read_ahead_bytes_max)
        self._was_used = False

    def bytes_to_fetch(self, next_offset: int) -> int:
        """Returns how many bytes to fetch now: 0 until ``request_bytes`` of the window have been consumed."""
        while self._ahead and self._ahead[0][0] <= next_offset:
            self._bytes_ahead -= self._ahead.popleft()[1]
        is_paused = self._clock.monotonic_ms() < self._paused_until_ms
        room_bytes = self.window_bytes - self._bytes_ahead
        return 0 if is_paused or room_bytes < self.request_bytes else room_bytes

    @property
    def request_bytes(self) -> int:
        """The window is fetched in parts of this size, so that some are fetched while others are consumed."""
        return max(self.window_bytes // REQUESTS_PER_WINDOW, self._settings.read_ahead_bytes_min)

    def fetched(self, end_offset: int, size_bytes: int) -> None:
        """Blocks of ``size_bytes`` that end at ``end_offset`` are being fetched, or are cached already."""
        self._ahead.append((end_offset, size_bytes))
        self._bytes_ahead += size_bytes
        self.until_offset = end_offset

    def block_was_used(self) -> None:
        self._was_used = True

    def block_was_wasted(self) -> None:
        self.give_up()

    def give_up(self) -> None:
        """Stops read-ahead for ``read_ahead_pause_ms``; then the window begins at its smallest size."""
        self._ahead.clear()
        self._bytes_ahead = 0
        self._was_used = False
        self.until_offset = 0
        self.window_bytes = min(self.window_bytes, self._settings.read_ahead_bytes_min)
        self._paused_until_ms = self._clock.monotonic_ms() + self._settings.read_ahead_pause_ms


class SequentialReaders:
    """The windows of all sequential readers, by the offset at which their next read begins. Their number is limited:
    the reader that has been idle for the longest time is forgotten."""

    def __init__(self, settings: ReadSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._waiting: OrderedDict[tuple[int, int], ReadAhead] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, stream_id: int, offset: int) -> ReadAhead:
        """Returns the window of the reader whose last read ended at ``offset``, or a new one."""
        ahead = self._waiting.pop((stream_id, offset), None)
        if ahead is None:
            return ReadAhead(self._settings, self._clock)
        ahead.reads_on()
        return ahead

    def keep(self, stream_id: int, next_offset: int, ahead: ReadAhead) -> None:
        self._waiting[stream_id, next_offset] = ahead
        self._waiting.move_to_end((stream_id, next_offset))
        if len(self._waiting) > self._settings.sequential_readers_max:
            self._waiting.popitem(last=False)
