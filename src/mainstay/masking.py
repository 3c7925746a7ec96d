"""Secrets in texts that people see: passwords in URLs and connection strings, tokens, settings.

    >>> masked("postgresql://app:s3cret@db/shop")
    'postgresql://app:***@db/shop'
    >>> masked("host=db password='s3 cret'")
    'host=db password=***'
    >>> masked_settings({"sasl.password": "s3cret"})
    {'sasl.password': '***'}

All that shows such things goes through here. It hides too much rather than too little.
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
SHORTEST = 3
"""A secret of fewer letters is in half of all words; nothing would be left of a message."""

_NAMES = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|auth(?:orization)?|jaas"
    r"|sig(?:nature)?|api[-_.]?key|access[-_.]?key|account[-_.]?key|private[-_.]?key|sas"
    r"|key[-_.]?pem|oauthbearer[-_.]?config|cookie"
)
_SECRET_NAME = re.compile(
    rf"(?:^|[^a-z])(?:\w*(?:password|secret|token)\w*|{_NAMES})(?:$|[^a-z])", re.I
)

# From the first colon of the login to the last "@" of the word: a password may have any of ":/?@".
_LOGIN = re.compile(r"([A-Za-z][\w+.-]*://)([^:/?#@\s]*):\S*@")
_ASSIGNED = re.compile(
    r"""([\w.-]+)(\s*=\s*)('(?:\\.|[^'\\])*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|[^\s&,;)]+)"""
)
_HEADER = re.compile(
    r"\b(authorization\s*[:=]\s*|(?:bearer|basic)\s+)(\S+(?:\s+[\w+/=.-]{8,})?)", re.I
)
# The last part of the URL of a webhook is often all that a service asks for.
_TOKEN = re.compile(r"(?<=/)(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}(?=/|\?|$)")


def is_secret(name: str) -> bool:
    """Whether the value of a setting of this name is not for everybody to see."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the secrets that are known by their place, and without those given."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    text = _LOGIN.sub(rf"\1\2:{MASK}@", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    return _ASSIGNED.sub(_assignment, text)


def _assignment(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if is_secret(found[1]) else found[0]


def masked_url(url: Any) -> str:
    """A web address: also without its query, and without parts like tokens."""
    if not isinstance(url, str):
        return f"a {type(url).__name__}"
    # Without a scheme it is no address, but may have been meant for one.
    bare = url if "://" in url else re.sub(r"^[^@]*@", f"{MASK}@", url)
    address, mark, _ = masked(bare).partition("?")
    return f"{_TOKEN.sub(MASK, address)}{'?…' if mark else ''}"


def masked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, with those that are secret hidden."""
    return {
        name: MASK if is_secret(str(name)) else masked(value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def secrets_of(settings: Mapping[str, Any]) -> list[str]:
    """The values of settings that are secret."""
    return [str(value) for name, value in settings.items() if is_secret(str(name))]


def refuse_login(url: str, error: type[Exception]) -> None:
    """Refuse the URL of a storage with a key or a password in it.

    It is part of manifests and messages, and stores take their credentials from elsewhere.
    """
    if has_login(url):
        raise error(
            f"the URL {masked(url)!r} has a key or a password in it, which would be seen in logs "
            "and in what is stored. Take it out; give credentials in the environment, as in "
            "AWS_ACCESS_KEY_ID, or in the options of the connector."
        )


def has_login(url: str) -> bool:
    """Whether a URL has a password in it."""
    return _LOGIN.match(url) is not None


# ---------------------------------------------------------------- one-line reprs


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 4
_UNSET = object()


def shown_settings(thing: Any) -> str:
    """``Files(path='orders/*.jsonl')``: a class and those of its arguments that were set.

    An argument is found by its name, also behind an underscore, and in parts that the object was
    given them to. Those that it has made something else of are left out.
    """
    parameters = inspect.signature(type(thing)).parameters.values()
    found = ((each, _setting(thing, each.name)) for each in parameters)
    parts = [
        f"{each.name}={_shown_value(each.name, value)}"
        for each, value in found
        if value is not _UNSET and not _is_default(value, each.default)
    ]
    return f"{type(thing).__name__}({', '.join(parts)})"


def _setting(thing: Any, name: str, deep: bool = True) -> Any:
    own = getattr(thing, "__dict__", None)
    if own is None:
        return getattr(thing, name, _UNSET)
    for spelled in (name, f"_{name}"):
        if spelled in own:
            return own[spelled]
    if not deep:
        return getattr(thing, name, _UNSET)
    parts = (part for part in own.values() if type(part).__module__.startswith("mainstay."))
    held = (_setting(part, name, deep=False) for part in parts)
    return next((value for value in held if value is not _UNSET and not callable(value)), _UNSET)


def _is_default(value: Any, default: Any) -> bool:
    if value is default or value is None or (isinstance(value, Mapping) and not value):
        return True
    return isinstance(value, str | int | float | bool) and bool(value == default)


def _shown_value(name: str, value: Any) -> str:
    if is_secret(name):
        return MASK
    if isinstance(value, str):
        text = masked_url(value) if value.startswith(("http://", "https://")) else masked(value)
        return _short.repr(text)
    if isinstance(value, Mapping):
        return masked(_short.repr(masked_settings(value)))
    if hasattr(value, "names") and hasattr(value, "types"):  # a schema of Arrow
        columns = zip(value.names, value.types, strict=True)
        return _short.repr(", ".join(f"{column} {type_}" for column, type_ in columns))
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return " ".join(masked(_short.repr(value)).split())
