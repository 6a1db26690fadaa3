from siltstone.model.access import LoginMechanism, Principal, ScramMechanism, SecurityProtocol


def test_what_mechanisms_are_called_and_which_hash_they_use() -> None:
    assert {each.written: (each, each.algorithm, each.key_bytes) for each in ScramMechanism} == {
        "SCRAM-SHA-256": (1, "sha256", 32),
        "SCRAM-SHA-512": (2, "sha512", 64),
    }
    assert [each.scram for each in LoginMechanism] == [
        ScramMechanism.SCRAM_SHA_512,
        ScramMechanism.SCRAM_SHA_256,
        None,
        None,
    ]


def test_protocols_and_principals() -> None:
    assert [(each.is_encrypted, each.wants_login) for each in SecurityProtocol] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]
    assert str(Principal("ada")) == "User:ada"
