from siltstone.kafka_client.producing.producer import RoundRobin


def test_partitions_take_turns() -> None:
    turns = RoundRobin(3, first=5)
    seen = [turns.partition]
    for _ in range(3):
        turns.turn()
        seen.append(turns.partition)
    assert seen == [2, 0, 1, 2]
