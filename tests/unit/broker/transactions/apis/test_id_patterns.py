import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.transactions.apis.id_patterns import IdPattern, PatternRefused

PIECES = ["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)", "(a|)", r"\d", r"\.", "x"]


@given(
    st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "*", "+", "?"])), max_size=6),
    st.text("abx1.", max_size=8),
)
def test_it_matches_what_python_matches(pieces, text):
    pattern = "".join(piece + mark for piece, mark in pieces)
    assert IdPattern(pattern).matches(text) is (re.fullmatch(pattern, text, re.DOTALL) is not None)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "*", "a**", "a+?", "a{2}", "(?i)a", "^a", "a$", "\\", r"\b", r"\1", "[z-a]", "x" * 1_001,
     "(" * 60 + ")" * 60],
)  # fmt: skip
def test_what_is_no_pattern_or_is_not_known_is_refused(pattern):
    with pytest.raises(PatternRefused):
        IdPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a+)+b", "(a|a)*b", "a*" * 20 + "b", "(a*)*b"])
def test_ab10_no_pattern_takes_long(pattern):
    begun = time.monotonic()
    assert not IdPattern(pattern).matches("a" * 2_000 + "c")
    assert time.monotonic() - begun < 60, "Python's own takes longer than anybody waits"
