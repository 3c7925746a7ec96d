"""The columns of persons."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.chunk import FIRST_ID, Chunk, times
from benchmarks.nexmark.texts import choices, joined, lengths_of, padding, short_texts

_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah"]
_FIRST += ["Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond"]
_CITIES += ["Seattle", "Kent", "Cheyenne"]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_AVERAGE_BYTES = 200
_ID_BYTES = 8


def name(chunk: Chunk) -> pa.Array:
    random = chunk.random("name")
    return joined(" ", choices(random, _FIRST, len(chunk)), choices(random, _LAST, len(chunk)))


def email(chunk: Chunk) -> pa.Array:
    random = chunk.random("email")
    user, host = short_texts(random, len(chunk), 7), short_texts(random, len(chunk), 5)
    return joined("", user, "@", host, ".com")


def credit_card(chunk: Chunk) -> pa.Array:
    random = chunk.random("credit_card")
    numbers = [pa.array(random.integers(0, 10_000, len(chunk))) for _ in range(4)]
    parts = [pc.utf8_lpad(each.cast(pa.string()), 4, "0") for each in numbers]
    return joined(" ", *parts)


def city(chunk: Chunk) -> pa.Array:
    return choices(chunk.random("city"), _CITIES, len(chunk))


def state(chunk: Chunk) -> pa.Array:
    """The state of the person, which knows nothing of the city."""
    return choices(chunk.random("state"), _STATES, len(chunk))


def extra(chunk: Chunk) -> pa.Array:
    shown = [name(chunk), email(chunk), credit_card(chunk), city(chunk), state(chunk)]
    sizes = _ID_BYTES + lengths_of(*shown)
    return padding(chunk.random("extra"), chunk.vocabulary.pool, sizes, _AVERAGE_BYTES)


COLUMNS: dict[str, Callable[[Chunk], pa.Array]] = {
    "id": lambda chunk: pa.array(chunk.cycles + FIRST_ID),
    "name": name,
    "email": email,
    "credit_card": credit_card,
    "city": city,
    "state": state,
    "at": lambda chunk: times(chunk.at_ms()),
    "extra": extra,
    "seq": lambda chunk: pa.array(chunk.ids),
}
