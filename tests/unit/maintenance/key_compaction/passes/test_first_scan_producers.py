from siltstone.maintenance.key_compaction.passes.first_scan import Producers

NOW_MS, EXPIRATION_MS = 1_000, 100


def told() -> Producers:
    return Producers(NOW_MS, EXPIRATION_MS)


def test_the_last_batch_with_data_stays() -> None:
    producers = told()
    producers.batch(1, 10, 950, is_transactional=False)
    producers.batch(2, 11, 950, is_transactional=False)
    producers.batch(1, 12, 960, is_transactional=False)
    assert producers.batches_that_stay() == {11, 12}


def test_one_that_is_idle_for_its_expiration_needs_nothing() -> None:
    producers = told()
    producers.batch(1, 10, 900, is_transactional=False)
    producers.batch(2, 11, 901, is_transactional=False)
    producers.batch(3, 12, 950, is_transactional=False)
    producers.batch(3, 13, 800, is_transactional=False)
    assert producers.batches_that_stay() == {11}


def test_a_marker_tells_when_its_producer_was_last_active() -> None:
    producers = told()
    producers.batch(1, 10, 800, is_transactional=True)
    producers.marker(1, 11, 950)
    producers.batch(2, 12, 950, is_transactional=True)
    producers.marker(2, 13, 800)
    assert producers.batches_that_stay() == {10}


def test_a_marker_stays_where_it_is_all_that_is_left() -> None:
    producers = told()
    producers.marker(1, 10, 940)
    producers.marker(1, 11, 950)
    assert producers.batches_that_stay() == {11}
    producers.batch(1, 12, 960, is_transactional=False)
    assert producers.batches_that_stay() == {12}


def test_an_open_transaction_stays_however_old() -> None:
    producers = told()
    producers.batch(1, 10, 1, is_transactional=True)
    assert producers.batches_that_stay() == {10}
