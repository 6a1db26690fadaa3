"""The types of ``siltstone.table.columns``, plain and nested."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.topic_configs.column_types import (
    DEPTH_MAX,
    PLAIN,
    ColumnType,
    TypeMalformed,
    canonical,
    parsed_type,
)


def array(of: ColumnType) -> ColumnType:
    return ColumnType("array", (("", of),))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("int", "int"),
        (" array < long > ", "array<long>"),
        ("map<string,json>", "map<string,json>"),
        ("map< string , array<date>>", "map<string,array<date>>"),
        ("struct<lat: double, lon double>", "struct<lat:double,lon:double>"),
        ("struct<a:struct<b:array<struct<c:int>>>>", "struct<a:struct<b:array<struct<c:int>>>>"),
        ("struct<int int, struct: string, map: long>", "struct<int:int,struct:string,map:long>"),
    ],
)
def test_spellings(text: str, same: str) -> None:
    assert canonical(parsed_type(text)) == same


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a type is missing at the end"),
        ("varchar", "varchar is none of boolean, int, long"),
        ("array", "'<' of array is missing at the end"),
        ("array<int", "'>' of array is missing at the end"),
        ("array<int>>", "'>' follows a whole type"),
        ("array<>", "> is none of boolean"),
        ("array<int, int>", "'>' of array is missing before ','"),
        ("map<int, int>", "the keys of a map are text: write map<string, TYPE>"),
        ("map<string>", "',' of map is missing before '>'"),
        ("struct<>", "'>' is not the name of a field"),
        ("struct<a>", "> is none of boolean"),
        ("struct<a int", "'>' of struct is missing at the end"),
        ("struct<a int,>", "'>' is not the name of a field"),
        ("struct<a int, A long>", "a field A is there already"),
        ("struct<a decimal(10,2)>", "'(' is a part of no type"),
        ("struct<ä int>", "'ä' is a part of no type"),
        ("array<" * DEPTH_MAX + "int" + ">" * DEPTH_MAX, f"to a depth of {DEPTH_MAX}"),
        ("array<" * 100_000, f"to a depth of {DEPTH_MAX}"),
    ],
)
def test_what_is_no_type(text: str, why: str) -> None:
    with pytest.raises(TypeMalformed) as refusal:
        parsed_type(text)
    assert why in str(refusal.value)


def test_the_deepest_type() -> None:
    deep = "array<" * (DEPTH_MAX - 1) + "int" + ">" * (DEPTH_MAX - 1)
    assert canonical(parsed_type(deep)) == deep


def test_the_fields_of_a_type() -> None:
    of = parsed_type("struct<a: array<struct<b: int>>, c: map<string, struct<d: int>>>")
    assert list(of.fields()) == ["a", "b", "c", "d"]
    assert parsed_type("array<int>").item == ColumnType("int")


def _nested(inner: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    names = st.lists(st.sampled_from(["a", "b", "int", "array", "X_1"]), min_size=1, unique=True)
    structs = names.flatmap(lambda found: st.tuples(*(st.tuples(st.just(each), inner) for each in found)))
    items = st.tuples(st.tuples(st.just(""), inner))
    return st.one_of(
        st.builds(ColumnType, st.just("struct"), structs),
        st.builds(ColumnType, st.sampled_from(["array", "map"]), items),
    )


@given(st.recursive(st.sampled_from(PLAIN).map(ColumnType), _nested, max_leaves=8))
def test_every_type_is_read_as_it_is_written(of: ColumnType) -> None:
    if canonical(of).count("<") < DEPTH_MAX:
        assert parsed_type(canonical(of)) == of
        assert parsed_type(canonical(of).replace(":", " : ").replace(",", " , ")) == of


@given(st.text(alphabet="struct<>,: aintmpgj", max_size=30))
def test_any_text_is_a_type_or_is_refused(text: str) -> None:
    try:
        assert parsed_type(canonical(parsed_type(text)))
    except TypeMalformed as refusal:
        assert str(refusal)
