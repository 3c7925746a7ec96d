"""Settings of an operator: the arguments that every method takes which adds one.

They are listed here alone. A method takes them as ``**settings: Unpack[Settings]`` and hands them
on whole; what it is called with, and what its signature shows, follows from the list
(:mod:`mainstay.own_frames`).
"""

from __future__ import annotations

from typing import TypedDict


class Settings(TypedDict, total=False):
    """How an operator runs.

    ``uid`` is what its state is known by. ``parallelism`` is the number of its subtasks: that of
    the job unless it is said. ``max_parallelism`` is the most that this may ever be, and the number
    of its key-groups where it is keyed; it is that of the job, too. With ``chain=False`` it is a
    task of its own, even where it could run in one call with what is before it.
    """

    uid: str | None
    parallelism: int | None
    max_parallelism: int | None
    chain: bool | None


SETTINGS = tuple(Settings.__annotations__)
