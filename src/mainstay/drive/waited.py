"""What ``job.wait`` gives back: the status, as text that is equal to it and says more."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.runtime.status import Problem


class JobStatus(str):
    """The status of a job. Printed, it says what the job waits for, or why it is restarting.

    It is compared, hashed and sorted like the bare word: ``job.wait(5) == "restarting"``.
    """

    problems: tuple[Problem, ...]

    def __new__(cls, word: str, problems: Sequence[Problem] = ()) -> JobStatus:
        status = super().__new__(cls, word)
        status.problems = tuple(problems)
        return status

    def __str__(self) -> str:
        word = str.__str__(self)
        return f"{word}: {'; '.join(map(str, self.problems))}" if self.problems else word

    def __repr__(self) -> str:
        return f"<{self}>" if self.problems else str.__repr__(self)
