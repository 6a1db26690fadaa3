from siltstone.broker.security.made_up import SALT_BYTES, MadeUpCredentials
from siltstone.metadata.users import ScramUser
from siltstone.model.access import ScramMechanism
from siltstone.model.serving_limits import SCRAM_ROUNDS
from support.security.credentials import credential

SHA_256, SHA_512 = ScramMechanism


def test_sa02_a_name_has_the_same_salt_each_time_and_in_no_other_store() -> None:
    here, elsewhere = MadeUpCredentials(b"a secret"), MadeUpCredentials(b"another")
    one = here.of("nobody", SHA_512, {})
    assert one == MadeUpCredentials(b"a secret").of("nobody", SHA_512, {})
    assert (len(one.salt), len(one.stored_key), len(one.server_key)) == (SALT_BYTES, 64, 64)
    others = [
        here.of("no-one", SHA_512, {}),
        here.of("nobody", SHA_256, {}),
        elsewhere.of("nobody", SHA_512, {}),
    ]
    assert len({each.salt for each in (one, *others)}) == 4
    assert one.stored_key != one.server_key


def test_its_rounds_are_those_of_real_users() -> None:
    made_up = MadeUpCredentials(b"a secret")
    assert made_up.of("nobody", SHA_512, {}).rounds == SCRAM_ROUNDS
    users = {
        name: ScramUser(name, (credential("p", SHA_512, rounds),))
        for name, rounds in (("a", 4096), ("b", 10_000))
    }
    rounds = {made_up.of(f"nobody-{number}", SHA_512, users).rounds for number in range(40)}
    assert rounds == {4096, 10_000}
    assert made_up.of("nobody", SHA_256, users).rounds == SCRAM_ROUNDS
