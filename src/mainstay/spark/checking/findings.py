"""What is found in a file: its functions, their states, and what to know of each."""

from __future__ import annotations

from dataclasses import dataclass

UNSUPPORTED, UNSEEN, NEEDED, DIFFERENT = "unsupported", "unseen", "needed", "different"
"""How a finding bears on a job: it does not run, nobody could look, something has to be said where
it is used, or it runs and something is different."""

PROCESSOR, GROUP_STATE = "StatefulProcessor", "applyInPandasWithState"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know, and the line of the file that it is about."""

    level: str
    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FoundState:
    """A state as a job will keep it."""

    name: str
    kind: str
    type: str
    map_key: str | None = None
    ttl_s: float | None = None


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call of the handle, of a state or of a time, and the lines where it is made."""

    on: str
    method: str
    lines: tuple[int, ...]
    is_supported: bool

    def __str__(self) -> str:
        return f"{self.on}.{self.method}()"


@dataclass(frozen=True, slots=True)
class CheckedFunction:
    """A class or function of the file."""

    name: str
    kind: str
    line: int
    states: tuple[FoundState, ...] = ()
    calls: tuple[FoundCall, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether all of it was seen, and runs as it is."""
        return self.is_seen and self.is_supported

    @property
    def is_supported(self) -> bool:
        """Whether nothing of what was seen of it is unsupported."""
        return not any(each.level == UNSUPPORTED for each in self.findings)

    @property
    def is_seen(self) -> bool:
        """Whether all of it could be looked at."""
        return not any(each.level == UNSEEN for each in self.findings)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """All of a file."""

    path: str
    functions: tuple[CheckedFunction, ...]
    findings: tuple[Finding, ...] = ()
    """What concerns no function alone."""

    @property
    def runs(self) -> bool:
        """Whether all of it runs as it is."""
        is_fine = not any(each.level == UNSUPPORTED for each in self.findings)
        return is_fine and all(each.runs for each in self.functions)
