import pytest

from siltstone.object_store.port import InvalidStoreUrl
from siltstone.object_store.s3.location import S3Location

FULL = (
    "s3://bucket/some/prefix/?endpoint_url=http%3A%2F%2F127.0.0.1%3A8333&region=eu-central-1"
    "&path_style=false&anonymous=true"
)


def test_every_option() -> None:
    assert S3Location.parse(FULL) == S3Location(
        bucket="bucket",
        prefix="some/prefix/",
        endpoint_url="http://127.0.0.1:8333",
        region="eu-central-1",
        path_style=False,
        anonymous=True,
    )


@pytest.mark.parametrize("url", ["s3://bucket/", "s3://bucket/a/b/", "s3://bucket/?region=us-east-1", FULL])
def test_the_url_of_a_location_is_the_one_it_came_from(url: str) -> None:
    assert S3Location.parse(url).url == url


@pytest.mark.parametrize(
    ("url", "prefix"), [("s3://b", ""), ("s3://b/", ""), ("s3://b/x", "x/"), ("s3://b/x/y/", "x/y/")]
)
def test_a_prefix_ends_in_a_slash_or_is_empty(url: str, prefix: str) -> None:
    assert S3Location.parse(url).prefix == prefix


@pytest.mark.parametrize(
    ("query", "style"),
    [
        ("", "auto"),
        ("?endpoint_url=http://h", "path"),
        ("?path_style=true", "path"),
        ("?endpoint_url=http://h&path_style=false", "auto"),
    ],
)
def test_an_endpoint_of_ones_own_has_the_bucket_in_the_path(query: str, style: str) -> None:
    assert S3Location.parse(f"s3://bucket/{query}").addressing_style == style


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("s3:bucket", "names no bucket"),
        ("s3:///key", "names no bucket"),
        ("http://bucket/", "names no bucket"),
        ("s3://key:secret@bucket/", "names no bucket"),
        ("s3://bucket/?regoin=x", "regoin is not an option"),
        ("s3://bucket/?region=x&region=y", "given twice"),
        ("s3://bucket/?path_style=yes", "path_style"),
    ],
)
def test_what_is_wrong_is_said(url: str, complaint: str) -> None:
    with pytest.raises(InvalidStoreUrl, match=complaint):
        S3Location.parse(url)
