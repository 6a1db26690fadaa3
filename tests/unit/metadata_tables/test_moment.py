"""What a moment knows of all streams at once is what it says of each by itself."""

from siltstone.metadata.commands import DeleteTopic
from siltstone.metadata_tables.moment import NO_NAME, NOTHING_LIVE, Moment
from support.metadata.queried_store import FLIGHTS, queried_world


def test_columns_of_streams_say_what_the_image_says() -> None:
    world = queried_world()
    world.do(DeleteTopic(0, 1, FLIGHTS))
    moment = Moment(world.image, 0)
    columns = moment.columns
    assert columns.ids.tolist() == sorted(world.image.streams) == [0, 4, 5]
    assert columns.live_from.tolist() == [NOTHING_LIVE, 0, 0]
    for place, stream_id in enumerate(columns.ids.tolist()):
        name = moment.name_of(stream_id)
        assert columns.topic_names[columns.topics[place]] == name.topic
        assert columns.role_names[columns.roles[place]] == name.role
        assert columns.partitions[place] == name.partition
    assert columns.places([4, 0]).tolist() == [1, 0]


def test_a_stream_without_a_topic_has_no_name() -> None:
    world = queried_world()
    stream_id = world.open_stream()
    moment = Moment(world.image, 0)
    assert moment.name_of(stream_id) == moment.name_of(999) == NO_NAME
    assert (
        moment.columns.partitions[-1] == -1 and moment.columns.topic_names[moment.columns.topics[-1]] is None
    )


def test_an_end_is_never_before_that_of_the_image() -> None:
    moment = Moment(queried_world().image, 0, ends={0: 29, 2: 6, 999: 5})
    assert [moment.end_of(each) for each in (0, 2, 999)] == [30, 6, 5]
