import time

import pytest

from siltstone.model.access import Principal
from siltstone.server.network.principal_mapping import (
    OWNER_NAME_CHARACTERS_MAX,
    InvalidMappingRule,
    NoPrincipal,
    parse_mapping_rules,
    principal_of,
)

DEV = "RULE:^CN=(.*?),OU=dev.*$/$1/L"


@pytest.mark.parametrize(
    ("rules", "owner", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (f"{DEV},DEFAULT", "CN=Svc,OU=dev,O=x", "svc"),
        (f"{DEV} , DEFAULT", "CN=Svc,OU=ops", "CN=Svc,OU=ops"),
        ("RULE:^CN=(.*?),.*$/$1@x/", "CN=Svc,O=y", "Svc@x"),
        ("RULE:^CN=(.*?),O=(.*)$/$2-$1/U", "CN=a,O=b", "B-A"),
        (r"RULE:^CN=kafka\/(.*)$/\/$1/", "CN=kafka/h", "/h"),
        ("RULE:^CN=(a)$/$1/,RULE:^CN=(.*)$/second-$1/", "CN=b", "second-b"),
        ("RULE:^CN=(a)?b$/x$1/", "CN=b", "x"),
    ],
)
def test_tl03_the_first_rule_that_fits_the_whole_name_wins(rules: str, owner: str, name: str) -> None:
    assert principal_of(owner, parse_mapping_rules(rules)) == Principal(name)
    assert str(Principal(name)) == f"User:{name}"


@pytest.mark.parametrize(
    ("rules", "owner"),
    [
        (DEV, "CN=Svc,OU=ops"),
        ("RULE:CN=a/x/", "CN=ab"),
        ("DEFAULT", ""),
        ("DEFAULT", "x" * (OWNER_NAME_CHARACTERS_MAX + 1)),
    ],
)
def test_tl03_a_name_that_no_rule_fits_is_nobody(rules: str, owner: str) -> None:
    with pytest.raises(NoPrincipal) as refused:
        principal_of(owner, parse_mapping_rules(rules))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("", "there is no rule"),
        ("default", "does not begin with a rule"),
        ("RULE:a/b", "does not begin with a rule"),
        ("DEFAULT RULE:a/b/", "does not begin with a rule"),
        ("DEFAULT,", ""),
        ("RULE:(/b/", "pattern .* is wrong"),
        ("RULE:(?=a)a/b/", "pattern .* is wrong.*look-around"),
        ("RULE:a/$1/", r"has no group \$1"),
        ("RULE:a/b/X", "does not begin with a rule"),
    ],
)
def test_tl03_a_wrong_rule_is_refused(rules: str, says: str) -> None:
    if not says:
        assert len(parse_mapping_rules(rules)) == 1
        return
    with pytest.raises(InvalidMappingRule, match=says):
        parse_mapping_rules(rules)


def test_tl03_a_long_name_takes_no_time_whatever_the_pattern() -> None:
    """Each further ``(.*?)`` makes a matcher that goes back slower by a factor of the length: it takes hours here."""
    kinds = ("OU", "O", "L", "ST", "C")
    rules = parse_mapping_rules(f"RULE:^CN=(.*?),{','.join(f'{each}=(.*?)' for each in kinds)},DC=(.*)$/$1/")
    owner = "CN=" + "".join(f",{each}=" * 180 for each in kinds)
    began = time.process_time()
    with pytest.raises(NoPrincipal):
        principal_of(owner, rules)
    assert time.process_time() - began < 1
    assert principal_of("CN=svc,OU=a,O=b,L=c,ST=d,C=e,DC=f", rules) == Principal("svc")


@pytest.mark.parametrize("owner", ["CN=SILTSTONE-NODE", "CN=siltstone-node", "CN=siltstone-other"])
def test_nd04_no_rule_makes_a_node_of_a_certificate(owner: str) -> None:
    with pytest.raises(NoPrincipal, match="names that begin with siltstone- are those of nodes"):
        principal_of(owner, parse_mapping_rules("RULE:^CN=(.*)$/$1/L"))
    assert principal_of(owner, parse_mapping_rules("DEFAULT")).name == owner
