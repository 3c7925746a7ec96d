"""What the state of an operator was made for: which windows, which join, or which pattern.

Its types do not tell: panes of three seconds look like those of two. A program that was changed
would count what is kept in the wrong windows, or in none, so that its restore is refused. Where
nothing is kept, as behind a drain, any change will do.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstay.errors import RestoreError
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import MADE_FOR


def check_made_for(context: OperatorContext, this: str, *, is_empty: Callable[[], bool]) -> None:
    """Refuse state that was made for something else; from now on it is made for this."""
    stored = context.lists[MADE_FOR.name]
    others = sorted(set(stored.get()) - {this})
    if others and not is_empty():
        raise RestoreError(
            f"operator {context.uid!r} keeps rows for {others[0]}, and is now declared with "
            f"{this}: there they would be counted wrong or not at all. Declare it as it was; or "
            "stop the job with stop(drain=True) before the change, which emits what is kept; or "
            "begin anew with another uid: the restore then says how to leave behind what is kept."
        )
    stored.update([this])
