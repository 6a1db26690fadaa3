"""``opening`` makes the decoder of a value format. A library is imported only for the format that needs it."""

from collections.abc import Callable

from siltstone.value_formats.decoding import ValueDecoder
from siltstone.value_formats.schemas.opening import shared_registry
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import FormatKind, ValueFormat


def open_decoder(value_format: ValueFormat, registry: Registry | None = None) -> ValueDecoder:
    """Returns the decoder of a format. ``registry`` is asked for the schemas that values name; without one, the
    registry at the URL of the format. Raises FormatExtraMissing, ArrowMissing, SchemaMalformed, FormatRefused."""
    if registry is None and value_format.registry:
        registry = shared_registry(value_format.registry)
    return _OPENED_BY[value_format.kind](value_format, registry)


def _string(value_format: ValueFormat, _: Registry | None) -> ValueDecoder:
    from siltstone.value_formats.decoders.json import TextDecoder  # noqa: PLC0415

    return TextDecoder(value_format)


def _json(value_format: ValueFormat, _: Registry | None) -> ValueDecoder:
    from siltstone.value_formats.decoders.json import JsonDecoder  # noqa: PLC0415

    return JsonDecoder(value_format)


def _avro(value_format: ValueFormat, registry: Registry | None) -> ValueDecoder:
    from siltstone.value_formats.decoders.avro import AvroDecoder  # noqa: PLC0415

    return AvroDecoder(value_format, registry)


def _protobuf(value_format: ValueFormat, registry: Registry | None) -> ValueDecoder:
    from siltstone.value_formats.decoders.protobuf import ProtobufDecoder  # noqa: PLC0415

    return ProtobufDecoder(value_format, registry)


_OPENED_BY: dict[FormatKind, Callable[[ValueFormat, Registry | None], ValueDecoder]] = {
    FormatKind.STRING: _string,
    FormatKind.JSON: _json,
    FormatKind.AVRO: _avro,
    FormatKind.PROTOBUF: _protobuf,
}
