"""The errors for which no value of a column can be decoded. A single bad value raises none of them: the decoder reports
it by row (``decoding.BadValue``)."""

from collections.abc import Iterable

from siltstone.model.errors import InvalidRequest, Unavailable


class FormatRefused(InvalidRequest):
    """The format of the values is not described well enough, or in a way that contradicts itself."""


class FormatExtraMissing(InvalidRequest):
    """The package that decodes this format is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"values need {package} to be decoded; install it: pip install 'siltstone[{extra}]'")
        self.package, self.extra = package, extra


class SchemaUnknown(InvalidRequest):
    """The registry has no such schema. A value that names it is a bad value."""


class SchemaMalformed(InvalidRequest):
    """The text of a schema cannot be understood."""


class SchemasNeeded(InvalidRequest):
    """A task met schema ids that its driver did not give it: the driver fetches them and repeats the task."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(sorted(set(ids)))
        super().__init__(f"schemas {', '.join(map(str, self.ids))} are needed: fetch them from the registry")


class RegistryNotReachable(Unavailable):
    """The schema registry does not answer, or answers with an error of its own. Nothing is wrong with the values."""


class RowNotEncodable(InvalidRequest):
    """A row does not fit the schema with which it is to be written."""


class BadValueFound(InvalidRequest):
    """A value cannot be decoded, and the reader did not ask for nulls in place of such values."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the value at {place} cannot be decoded: {reason}; read it without a value format to see its bytes, or"
            " get null for such values with badValues=null (in Python bad_values='null')"
        )
        self.place, self.reason = place, reason
