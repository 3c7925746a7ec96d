"""Migrations: functions of the job's author that turn old values into new ones.

They are used when a job is restored from a snapshot whose type is not the declared one; the first
snapshot after that has the declared type, so nothing is ever migrated twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.errors import GraphError, RestoreError, named
from mainstay.own_frames import made_with_own_frames
from mainstay.state.values import ValueType
from mainstay.tracebacks import own_traceback, pass_on_interrupt


def migration_failed(what: str, old: str, error: BaseException) -> RestoreError:
    """The function of a migration raised an error, whatever its class, for an old value or key."""
    pass_on_interrupt(error)
    return RestoreError(
        f"{what}: the migration of {old} failed: {named(error)}. Correct the function; the "
        f"snapshot is as it was.\n{own_traceback(error)}".rstrip()
    )


@made_with_own_frames
@dataclass(frozen=True, slots=True)
class Migration:
    """A function of an old value, used just for values of one stored type.

    A function by itself is used where the types differ and nothing converts by itself; with
    ``from_type`` it is used for that type, and for no other, even where something would. A type of
    None stands for values that were stored without one.
    """

    function: Callable[[Any], Any]
    from_type: Any
    is_general: bool = False

    @staticmethod
    def of(given: Any, declared: ValueType) -> Migration | None:
        """A migration as it is declared, checked: none, a function, or a ``Migration``."""
        if given is None:
            return None
        made = given if isinstance(given, Migration) else Migration(given, None, is_general=True)
        if not callable(made.function):
            raise GraphError(
                f"migrate={given!r} must be a function of the old value, or Migration(function, "
                'from_type="...").'
            )
        if not made.is_general and made.stored_ddl == declared.ddl:
            raise GraphError(
                f"a migration from {declared.ddl} to the same type would be applied at every "
                "restore. Give the type that the snapshot has, or another one to the state."
            )
        return made

    @property
    def stored_ddl(self) -> str:
        return ValueType.of(self.from_type).ddl

    def is_for(self, stored_ddl: str, *, is_convertible: bool) -> bool:
        """Whether it is to be used for values of a stored type, which is not the declared one."""
        return not is_convertible if self.is_general else self.stored_ddl == stored_ddl
