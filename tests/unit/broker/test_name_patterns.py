import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.name_patterns import NamePattern, PatternRefused

PIECES = ["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)", "(a|)", r"\d", r"\.", "x", "(?:ab)"]


@given(
    st.lists(
        st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}"])), max_size=6
    ),
    st.text("abx1.", max_size=8),
)
def test_it_matches_what_python_matches(pieces, text):
    pattern = "".join(piece + mark for piece, mark in pieces)
    assert NamePattern(pattern).matches(text) is (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "name"), [("^t-.*", "t-9"), ("(?i)T", "t"), ("a$", "a"), ("größe.*", "größe")]
)
def test_what_people_write(pattern, name):
    assert NamePattern(pattern).matches(name)
    assert not NamePattern(pattern).matches(f"x{name}x")


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "*", "\\", r"\1", "[z-a]", "x" * 1_001, "(?!x)", "(?<=x)y", "a{1001}",
     "((a{100}){100}){100}", "(?:" * 250 + "a{1000}" + ")" * 250],
)  # fmt: skip
def test_what_is_no_pattern_or_is_too_large_is_refused(pattern):
    with pytest.raises(PatternRefused) as refused:
        NamePattern(pattern)
    assert "pattern" in str(refused.value) and "b'" not in str(refused.value)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a+)+b", "(a|a)*b", "a*" * 20 + "b", "(a*)*b"])
def test_ab10_no_pattern_takes_long(pattern):
    begun = time.monotonic()
    assert not NamePattern(pattern).matches("a" * 2_000 + "c")
    assert time.monotonic() - begun < 60, "Python's own takes longer than anybody waits"
