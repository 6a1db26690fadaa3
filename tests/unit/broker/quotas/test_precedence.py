"""Kafka's eight levels: which limit wins, and whose counter it is."""

import pytest

from siltstone.broker.quotas.precedence import WinningLimit, limit_of_address, winning_limit
from siltstone.model.quotas import ClientQuota, QuotaEntity, QuotaKey, entity_of

RATE = QuotaKey.PRODUCER_BYTE_RATE

LEVELS: list[tuple[QuotaEntity, str | None, str | None]] = [
    (entity_of(user="ada", client_id="app"), "ada", "app"),
    (entity_of(user="ada", client_id=None), "ada", "app"),
    (entity_of(user="ada"), "ada", None),
    (entity_of(user=None, client_id="app"), "ada", "app"),
    (entity_of(user=None, client_id=None), "ada", "app"),
    (entity_of(user=None), "ada", None),
    (entity_of(client_id="app"), None, "app"),
    (entity_of(client_id=None), None, "app"),
]
"""The entity, the strongest first, and the user and client id whose counter it is."""


def table(entities: list[QuotaEntity], key: QuotaKey = RATE) -> dict[str, ClientQuota]:
    quotas = [ClientQuota(entity, ((key, float(number)),)) for number, entity in enumerate(entities, 1)]
    return {quota.key: quota for quota in quotas}


@pytest.mark.parametrize("gone", range(len(LEVELS) + 1))
def test_qu03_levels_are_asked_in_order(gone: int) -> None:
    others = [entity_of(user="bob"), entity_of(client_id="other"), entity_of(user="bob", client_id="app")]
    left = [entity for entity, _, _ in LEVELS[gone:]]
    won = winning_limit(table([*left, *others]), RATE, "ada", "app")
    if gone == len(LEVELS):
        assert won is None
        return
    _, user, client_id = LEVELS[gone]
    assert won == WinningLimit(1.0, user, client_id)


def test_qu04_a_user_shares_its_quota_among_its_clients() -> None:
    quotas = table([entity_of(user="ada"), entity_of(client_id=None)])
    first, second = (winning_limit(quotas, RATE, "ada", client_id) for client_id in ("one", "two"))
    assert first == second == WinningLimit(1.0, "ada", None)
    assert winning_limit(quotas, RATE, "bob", "one") == WinningLimit(2.0, None, "one")


def test_a_level_without_this_limit_is_passed_over() -> None:
    quotas = table([entity_of(user="ada")], QuotaKey.CONSUMER_BYTE_RATE) | table([entity_of(user=None)])
    assert winning_limit(quotas, RATE, "ada", "app") == WinningLimit(1.0, "ada", None)


def test_a_client_without_an_id_has_the_defaults_and_shares_its_users() -> None:
    assert winning_limit(table([entity_of(user="ada")]), RATE, "ada", "") == WinningLimit(1.0, "ada", None)
    assert winning_limit(table([entity_of(client_id=None)]), RATE, "ada", "") == WinningLimit(1.0, None, "")


def test_an_address_has_its_own_limit_or_the_default() -> None:
    key = QuotaKey.CONNECTION_CREATION_RATE
    quotas = table([entity_of(ip="10.0.0.7"), entity_of(ip=None)], key)
    assert limit_of_address(quotas, "10.0.0.7") == 1.0
    assert limit_of_address(quotas, "10.0.0.8") == 2.0
    assert limit_of_address({}, "10.0.0.8") is None
