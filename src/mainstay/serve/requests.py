"""What is sent to the REST service."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Key = str | int | float | bool | None | list[Any] | dict[str, Any]
PATIENCE_S = 30.0
LONGEST_S = 300.0
"""How long a request waits for an answer, and the most that may be asked for."""
MOST_STATES = 32
MOST_KEYS = 10_000
LARGEST = 2**63 - 1


EPOCHS = 200
MOST_EPOCHS = 1000
LINES = 200
MOST_LINES = 3000


class Strict(BaseModel):
    """Names that nobody knows are refused, because they are mistyped."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EpochsQuery(Strict):
    """Which epochs are wanted: the newest, or those with lower numbers."""

    limit: int = Field(default=EPOCHS, ge=0, le=MOST_EPOCHS)
    before: int | None = Field(default=None, ge=0, le=LARGEST)


class OutputQuery(Strict):
    """Which lines are wanted: the newest, of all attempts that are kept or of one."""

    limit: int = Field(default=LINES, ge=0, le=MOST_LINES)
    attempt: int | None = Field(default=None, ge=0, le=LARGEST)


class StatesQuery(Strict):
    """At which epoch states are listed; the latest where none is named."""

    epoch: int | None = Field(default=None, ge=0, le=LARGEST)


class Request(Strict):
    """What every request with a body has in common."""

    timeout_s: float = Field(default=PATIENCE_S, gt=0, le=LONGEST_S, allow_inf_nan=False)


Offset: TypeAlias = Annotated[int, Field(ge=0, le=LARGEST)]


class After(Strict):
    """What the answer is to hold at least: an epoch, or what sources had up to some offsets.

    Those are given by source: one for a source with one split, else one for each split by its id.
    """

    epoch: int = Field(default=0, ge=0, le=LARGEST)
    sources: dict[str, Offset | dict[str, Offset]] | None = None


class QueryRequest(Request):
    """What states hold: of some keys, or of all.

    A key is a value, or a list of the values of its columns. With ``exact_keys`` it is just what it
    is in Python: what JSON has no word for is an object such as ``{"$bytes": "00ff"}``.
    """

    states: list[str] = Field(min_length=1, max_length=MOST_STATES)
    keys: list[Key] | None = Field(default=None, max_length=MOST_KEYS)
    exact_keys: bool = False
    limit: int | None = Field(default=None, ge=0, le=LARGEST)
    at: Literal["live", "committed"] = "committed"
    epoch: int | Literal["latest"] = "latest"
    after: After | None = None


class SqlRequest(Request):
    """A ``SELECT`` over states, each the table ``operator.state``."""

    statement: str = Field(min_length=1)
    epoch: int | Literal["latest"] = "latest"


class SavepointRequest(Request):
    """Write a savepoint to an absolute path or a URL that the driver can reach."""

    path: str = Field(min_length=1)


class StopRequest(Request):
    """Bring the job to a standstill, with a savepoint where there is a path."""

    path: str | None = Field(default=None, min_length=1)
    drain: bool = False


class RescaleRequest(Request):
    """Go on at another parallelism."""

    parallelism: int = Field(ge=1, le=LARGEST)


class CancelRequest(Request):
    """End the job without finishing it."""
