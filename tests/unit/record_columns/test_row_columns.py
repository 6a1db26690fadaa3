import pytest

from siltstone.record_columns.row_columns import ALL_COLUMNS, ROW_COLUMNS, ColumnUnknown, chosen_columns


def test_without_a_choice_all_columns_but_the_headers() -> None:
    assert chosen_columns(None) == ROW_COLUMNS
    assert chosen_columns(None, with_headers=True) == ALL_COLUMNS


def test_columns_keep_the_order_in_which_they_are_wanted() -> None:
    assert chosen_columns(["value", "offset"]) == ("value", "offset")
    assert chosen_columns("value, offset") == ("value", "offset")


@pytest.mark.parametrize(
    ("wanted", "named"),
    [(["offset", "colour"], "'colour'"), (["offset", "offset"], "each column once"), ([], "at least one")],
)
def test_sr26_unknown_and_repeated_columns_are_refused_by_name(wanted: list[str], named: str) -> None:
    with pytest.raises(ColumnUnknown, match=named):
        chosen_columns(wanted)
