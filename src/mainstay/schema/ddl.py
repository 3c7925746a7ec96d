"""Spark's DDL strings, read and written without a JVM.

    >>> parse_schema("customer string, total long")
    customer: string
    total: int64
    >>> format_type(pa.list_(pa.int64()))
    'array<long>'

The parser is a recursive descent over a list of tokens::

    schema  = field {"," field} | "struct" "<" [field {"," field}] ">"
    field   = name [":"] type {"NOT" "NULL" | "COMMENT" text}
    type    = simple ["(" number {"," number} ")"]
            | "array" "<" type ">" | "map" "<" type "," type ">"
            | "struct" "<" [field {"," field}] ">"

Words are read without regard to case; a name in back-quotes may hold anything, with a back-quote
written twice. Comments are dropped: no type carries them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, NoReturn

import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.schema.types import (
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    check_names_differ,
    normalise,
)
from mainstay.spelling import did_you_mean

# The first name of a type is the one that it is written with.
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
_DECIMAL = ("decimal", "dec", "numeric")
_SIZED_TEXT = ("varchar", "char")
_KNOWN = (*_SIMPLE, *_DECIMAL, "varchar(n)", "char(n)", "array<T>", "map<K,V>", "struct<name:T>")

_NAMES: dict[pa.DataType, str] = {}
for _name, _type in _SIMPLE.items():
    _NAMES.setdefault(_type, _name)

_TOKEN = re.compile(
    r"""(?P<word>\w+)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@lru_cache(maxsize=1024)
def parse_type(text: str) -> pa.DataType:
    """The type that a DDL string such as ``"map<string,array<long>>"`` describes."""
    parser = _Parser(text)
    data_type = parser.type()
    parser.end()
    return data_type


def parse_schema(text: str) -> pa.Schema:
    """The schema that a DDL string such as ``"customer string, total: long"`` describes.

    The form ``struct<customer:string,total:long>`` is read as well.
    """
    parser = _Parser(text)
    fields = parser.columns()
    parser.end()
    return pa.schema(fields)


def format_type(data_type: pa.DataType) -> str:
    """The DDL string of a type; ``parse_type`` reads it back as the same (normalised) type."""
    return _format(normalise(data_type))


def format_schema(schema: pa.Schema) -> str:
    """The DDL string of a schema; ``parse_schema`` reads it back as the same schema."""
    return _format_fields(
        (pa.field(f.name, normalise(f.type), nullable=f.nullable) for f in schema), " ", ", "
    )


def _format(data_type: pa.DataType) -> str:
    if data_type in _NAMES:
        return _NAMES[data_type]
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_map(data_type):
        return f"map<{_format(data_type.key_type)},{_format(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        return f"struct<{_format_fields(data_type, ':', ',')}>"
    return f"array<{_format(data_type.value_type)}>"


def _format_fields(fields: Iterable[pa.Field], colon: str, comma: str) -> str:
    return comma.join(
        f"{_format_name(f.name)}{colon}{_format(f.type)}{'' if f.nullable else ' NOT NULL'}"
        for f in fields
    )


def _format_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Parser:
    """One pass over the tokens of one text; every method reads what it is named after."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenise()
        self._next = 0

    def end(self) -> None:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._fail(f"{token.text!r} is not expected here", token.position)

    def columns(self) -> list[pa.Field]:
        first, second = self._tokens[0], self._tokens[min(1, len(self._tokens) - 1)]
        if first.kind == "end":
            self._fail("the text is empty; name at least one column, as in 'total long'", 0)
        if first.text.lower() == "struct" and second.text == "<":
            return list(self.type())
        return self._fields()

    def type(self) -> pa.DataType:
        token = self._take("word", "a type")
        name = token.text.lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMAL:
            return self._decimal(token)
        if name in _SIZED_TEXT:
            return self._sized_text(token)
        return self._nested(token, name)

    def _nested(self, token: _Token, name: str) -> pa.DataType:
        if name == "array":
            self._sign("<")
            data_type = pa.list_(self.type())
        elif name == "map":
            self._sign("<")
            key = self.type()
            self._sign(",")
            data_type = pa.map_(key, self.type())
        elif name == "struct":
            self._sign("<")
            data_type = pa.struct([] if self._sees(">") else self._fields())
        else:
            self._fail(
                f"{token.text!r} is not a type; the types are {', '.join(_KNOWN)}."
                f"{did_you_mean(token.text, _KNOWN)}",
                token.position,
            )
        self._sign(">")
        return data_type

    def _decimal(self, token: _Token) -> pa.DataType:
        numbers = self._numbers()
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        if len(numbers) > 2 or not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            self._fail(
                f"a decimal is written decimal(precision,scale) with a precision of 1 to "
                f"{MAX_DECIMAL_PRECISION} and a scale of 0 to the precision",
                token.position,
            )
        return pa.decimal128(precision, scale)

    def _sized_text(self, token: _Token) -> pa.DataType:
        if len(self._numbers()) != 1:
            self._fail(f"{token.text} needs one length, as in {token.text}(20)", token.position)
        return pa.string()

    def _numbers(self) -> list[int]:
        if not self._sees("("):
            return []
        numbers: list[int] = []
        while not numbers or self._sees(","):
            self._next += 1
            token = self._take("word", "a number")
            if not (token.text.isascii() and token.text.isdigit()):
                self._fail(f"a number is expected, not {token.text!r}", token.position)
            numbers.append(int(token.text))
        self._sign(")")
        return numbers

    def _fields(self) -> list[pa.Field]:
        start = self._tokens[self._next].position
        fields = [self._field()]
        while self._sees(","):
            self._next += 1
            fields.append(self._field())
        try:
            check_names_differ(f.name for f in fields)
        except SchemaError as error:
            self._fail(str(error), start)
        return fields

    def _field(self) -> pa.Field:
        name = self._name()
        if self._sees(":"):
            self._next += 1
        data_type = self.type()
        nullable = True
        while self._tokens[self._next].kind == "word":
            nullable = self._suffix() and nullable
        return pa.field(name, data_type, nullable=nullable)

    def _suffix(self) -> bool:
        """Read NOT NULL or a comment; the answer is whether the column may still be null."""
        token = self._take("word", "NOT NULL")
        if token.text.lower() == "comment":
            self._take("text", "the text of the comment, in quotes,")
            return True
        null = self._tokens[self._next]
        if token.text.lower() != "not" or null.text.lower() != "null":
            self._fail(
                "only NOT NULL, COMMENT '…' or a comma may follow a column's type", token.position
            )
        self._next += 1
        return False

    def _name(self) -> str:
        token = self._tokens[self._next]
        if token.kind == "quoted":
            self._next += 1
            return token.text[1:-1].replace("``", "`")
        return self._take("word", "a column name").text

    def _sees(self, sign: str) -> bool:
        token = self._tokens[self._next]
        return token.kind == "sign" and token.text == sign

    def _sign(self, sign: str) -> None:
        if not self._sees(sign):
            self._expected(repr(sign))
        self._next += 1

    def _take(self, kind: str, what: str) -> _Token:
        token = self._tokens[self._next]
        if token.kind != kind:
            self._expected(what)
        self._next += 1
        return token

    def _expected(self, what: str) -> NoReturn:
        token = self._tokens[self._next]
        found = "the text ends" if token.kind == "end" else f"there is {token.text!r}"
        self._fail(f"{what} is expected but {found}", token.position)

    def _tokenise(self) -> list[_Token]:
        tokens = []
        position = self._skip_space(0)
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                self._fail(f"{self._text[position]!r} is not expected here", position)
            tokens.append(_Token(str(match.lastgroup), match.group(), position))
            position = self._skip_space(match.end())
        tokens.append(_Token("end", "", position))
        return tokens

    def _skip_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match else position

    def _fail(self, message: str, position: int) -> NoReturn:
        line = re.sub(r"\s", " ", self._text)
        raise SchemaError(
            f"cannot read {self._text!r} as a type or schema, at position {position}: {message}\n"
            f"    {line}\n"
            f"    {' ' * position}^"
        )
