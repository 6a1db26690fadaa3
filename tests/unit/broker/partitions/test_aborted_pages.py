from siltstone.broker.partitions.aborted_pages import AbortedPages, entries_per_page
from siltstone.model.limits import ABORTED_PER_PAGE_MAX, APPEND_BYTES_MAX, KIB
from siltstone.object_formats.partition_snapshot import AbortedPage, AbortedTransaction
from siltstone.offline.transactions import AbortedTransactions


def some(count: int, first: int = 0) -> list[AbortedTransaction]:
    return [AbortedTransaction(9, 10 * each, 10 * each + 5) for each in range(first, first + count)]


def test_a_page_takes_at_most_a_quarter_of_an_append():
    assert entries_per_page(8 * KIB) == 8 * KIB // 4 // 24
    assert entries_per_page(APPEND_BYTES_MAX) == ABORTED_PER_PAGE_MAX
    assert entries_per_page(10) == 1


def test_the_older_ones_fill_pages_and_the_rest_stays_with_the_snapshot():
    pages = AbortedPages(3)
    entries = some(8)
    assert pages.split(AbortedTransactions(entries[:2])) == ([], entries[:2])
    full, rest = pages.split(AbortedTransactions(entries))
    assert (full, rest) == ([entries[:3], entries[3:6]], entries[6:])


def test_what_is_in_a_page_is_written_once():
    pages = AbortedPages(3, [AbortedPage(4, 25)])
    entries = some(7)
    assert pages.split(AbortedTransactions(entries)) == ([entries[3:6]], entries[6:])
    pages.written(9, entries[3:6])
    assert pages.all == (AbortedPage(4, 25), AbortedPage(9, 55))
    assert pages.split(AbortedTransactions(entries)) == ([], entries[6:])


def test_a_page_is_needed_while_the_log_has_its_last_marker():
    pages = AbortedPages(3, [AbortedPage(4, 25), AbortedPage(6, 55)])
    assert pages.oldest_needed(9) == 4
    pages.trim(25)
    assert pages.oldest_needed(9) == 4
    pages.trim(26)
    assert (pages.all, pages.oldest_needed(9)) == ((AbortedPage(6, 55),), 6)
    pages.trim(56)
    assert (pages.all, pages.oldest_needed(9)) == ((), 9)
