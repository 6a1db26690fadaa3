"""Locations of one file that different programs write."""

import pytest

from siltstone.tables.formats.locations import is_elsewhere, path_in, unquoted


@pytest.mark.parametrize(
    ("folder", "locations"),
    [
        (
            "file:///tables/kafka/t/",
            ("file:///tables/kafka/t/x y/%20", "file:/tables/kafka/t/x y/%20", "/tables/kafka/t/x y/%20",
             "file://localhost/tables/kafka/t/x y/%20", "FILE:/tables/kafka/t/x y/%20"),
        ),
        (
            "s3://lake/kafka/t",
            ("s3://lake/kafka/t/x y/%20", "s3a://lake/kafka/t/x y/%20", "s3n://lake/kafka/t/x y/%20"),
        ),
        ("gs://lake/kafka/t/", ("gs://lake/kafka/t/x y/%20",)),
    ],
)  # fmt: skip
def test_rule_16_all_locations_of_a_file_in_the_folder_have_one_path(
    folder: str, locations: tuple[str, ...]
) -> None:
    assert {path_in(folder, each) for each in locations} == {"x y/%20"}
    assert not is_elsewhere("x y/%20")


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("file:/tables/kafka/t2/a b", "file:///tables/kafka/t2/a%20b"),
        ("/tables/kafka", "file:///tables/kafka"),
        ("file://elsewhere/tables/kafka/t/a", "file://elsewhere/tables/kafka/t/a"),
        ("s3a://lake/kafka/t/a", "s3://lake/kafka/t/a"),
        ("hdfs://name/tables/kafka/t/a", "hdfs://name/tables/kafka/t/a"),
    ],
)
def test_a_file_elsewhere_has_a_url_that_our_stores_take(location: str, url: str) -> None:
    assert path_in("file:///tables/kafka/t", location) == url
    assert is_elsewhere(url) and is_elsewhere(location)


def test_paths_below_a_folder_are_not_elsewhere_whatever_their_names() -> None:
    assert not any(map(is_elsewhere, ("data/a.parquet", "at=10:00/a.parquet", "b=s3://x/a.parquet", "")))


def test_only_paths_of_files_are_unquoted() -> None:
    assert unquoted("file:///a%20b/%C3%A4") == "file:///a b/ä"
    assert unquoted("s3://lake/a%20b") == "s3://lake/a%20b"
