import pickle

import pytest

from siltstone.model.secret import NO_SECRET, Secret, SecretStays


def test_sp01_a_secret_shows_in_no_text() -> None:
    secret = Secret("gandalf")
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret:>20}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert "gandalf" not in shown and "<secret>" in shown
    assert secret.revealed() == "gandalf"


def test_sp01_a_secret_is_pickled_only_when_somebody_has_allowed_it() -> None:
    with pytest.raises(SecretStays):
        pickle.dumps({"password": Secret("gandalf")})
    assert pickle.loads(pickle.dumps(Secret("gandalf").travelling())) == Secret("gandalf")


def test_equality_and_truth() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != "a"
    assert not NO_SECRET and Secret("a")
