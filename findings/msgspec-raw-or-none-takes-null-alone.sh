#!/usr/bin/env bash
# What    msgspec 0.22.0 (PyPI): a field of the type "Raw | None" takes null alone.
# Guess   It holds any value as it was written, for later, and None for null or where the field is missing; "int | None" does
#         the like. The type is accepted without a word.
# Seen    Every other value is refused: Expected `null`, got `object`. JSON and MessagePack are the same. A field of the type
#         Raw takes null, too, as a Raw with the bytes of null.
# So      Declare the field as Raw with a default, and compare its bytes with those of null.
# Source  msgspec's documentation of Raw, and of unions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "msgspec==0.22.0"
"$folder/venv/bin/python" - <<'PY'
import msgspec


class Nullable(msgspec.Struct):
    part: msgspec.Raw | None = None


class Plain(msgspec.Struct):
    part: msgspec.Raw = msgspec.Raw()


def seen(kind, codec, value):
    try:
        found = codec.decode(codec.encode({"part": value}), type=kind).part
    except msgspec.ValidationError as refusal:
        return str(refusal)
    return "None" if found is None else f"Raw, {bytes(found)}"


for codec in (msgspec.json, msgspec.msgpack):
    for value in ({"a": 1}, [1], "text", None):
        print(f"{codec.__name__}: {value!r}: Raw | None: {seen(Nullable, codec, value)}; Raw: {seen(Plain, codec, value)}")
        assert seen(Plain, codec, value).startswith("Raw"), "the other half of this finding"
        wanted = "None" if value is None else "Expected `null`"
        assert seen(Nullable, codec, value).startswith(wanted), "msgspec takes it now: this finding is out of date"
PY
echo "seen again"
