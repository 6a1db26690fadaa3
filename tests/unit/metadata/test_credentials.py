from siltstone.foundation.scram import keys_of, salted_password
from siltstone.metadata.credentials import credentials_of
from siltstone.metadata.decisions.users import check_credential
from siltstone.model.access import ScramMechanism
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import seeded_randomness


def test_a_credential_for_each_mechanism_with_a_salt_of_its_own() -> None:
    made = credentials_of(Secret("pencil"), ScramMechanism, 4096, seeded_randomness(1))
    assert [each.mechanism for each in made] == [*ScramMechanism]
    assert made[0].salt != made[1].salt
    for each in made:
        check_credential("ada", each)
        algorithm = each.mechanism.algorithm
        keys = keys_of(algorithm, salted_password(algorithm, b"pencil", each.salt, 4096))
        assert (each.stored_key, each.server_key) == (keys.stored_key, keys.server_key)
