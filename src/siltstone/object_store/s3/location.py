"""The bucket that an ``s3://`` URL names, and the options by which it is reached.

``s3://bucket/prefix?endpoint_url=http%3A%2F%2F127.0.0.1%3A8333&region=eu-central-1&path_style=true&anonymous=true``

Everything but the bucket is optional. Credentials are never part of the URL, because URLs are stored and printed:
botocore finds them in the environment, the profile or the machine's role.
"""

from typing import Self
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from siltstone.object_store.port import InvalidStoreUrl

_FLAGS = {"true": True, "false": False}


class S3Location(msgspec.Struct, frozen=True):
    bucket: str
    prefix: str = ""
    """The text before every key in the bucket; it is empty or ends in a slash."""
    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    """Whether requests name the bucket in the path and not in the host name. None: they do if there is an
    endpoint_url."""
    anonymous: bool | None = None
    """Whether requests are sent without a signature."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Returns the location that a URL names. Raises InvalidStoreUrl."""
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc:
            raise InvalidStoreUrl(f"{url!r} names no bucket; write s3://bucket/prefix")
        prefix = parts.path.strip("/")
        options = _options(url, parts.query)
        try:
            return msgspec.convert(
                {"bucket": parts.netloc, "prefix": prefix and prefix + "/", **options}, cls
            )
        except msgspec.ValidationError as error:
            raise InvalidStoreUrl(f"{url!r}: {error}") from None

    @property
    def url(self) -> str:
        options = {name: getattr(self, name) for name in _OPTIONS if getattr(self, name) is not None}
        written = {
            name: str(value).lower() if value in (True, False) else value for name, value in options.items()
        }
        query = f"?{urlencode(written)}" if written else ""
        return f"s3://{self.bucket}/{quote(self.prefix)}{query}"

    @property
    def addressing_style(self) -> str:
        """The value of botocore's setting of this name."""
        path_style = self.endpoint_url is not None if self.path_style is None else self.path_style
        return "path" if path_style else "auto"


_OPTIONS = ("endpoint_url", "region", "path_style", "anonymous")


def _options(url: str, query: str) -> dict[str, str | bool]:
    options: dict[str, str | bool] = {}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        if name not in _OPTIONS or len(values) != 1:
            raise InvalidStoreUrl(
                f"{url!r}: {name} is not an option, or is given twice; the options are {', '.join(_OPTIONS)}"
            )
        options[name] = _FLAGS.get(values[0], values[0])
    return options
