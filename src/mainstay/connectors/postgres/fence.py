"""The fence: which attempt of a sink a database listens to, and what older ones left in it.

Table ``mainstay_fence`` has a row per sink (*owner*), with the attempt that is admitted and its
*term*: a number that the database counts up for every attempt of every job, so that the rows and
transactions of one can be told from those of all others, also where a job was started afresh.

An attempt is admitted in ``recover``, in this order:

1. The fence is raised: from now on any other term is refused.
2. The sessions of other attempts are ended. One that had looked before can do nothing any more;
   what it had open is rolled back, and its locks are gone.
3. Whatever is prepared by now and in nobody's snapshot is rolled back. Nothing is added to it.

Workers may be there before ``recover`` has run: they wait to be admitted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.postgres.columns import composed, identifier
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.session import Server, Session
from mainstay.errors import FencedError, RestoreError, SinkError
from mainstay.runtime.connector import UnavailableError

FENCE, TERMS = "mainstay_fence", "mainstay_terms"
CHANNEL = "mainstay_fence"
LOOK_AGAIN_S = 1.0
ENDING_S = 10.0

DEFINITION = """
CREATE SEQUENCE IF NOT EXISTS {terms};
CREATE TABLE IF NOT EXISTS {fence} (
    owner text PRIMARY KEY,
    attempt bigint NOT NULL,
    term bigint NOT NULL,
    token text NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT now()
)
"""

_RAISE = """
INSERT INTO {fence} AS f (owner, attempt, term, token)
VALUES ({owner}, {attempt}, nextval({terms}), {token})
ON CONFLICT (owner) DO UPDATE
SET attempt = excluded.attempt, term = excluded.term, token = excluded.token, raised_at = now()
WHERE f.attempt < excluded.attempt
"""

_OTHERS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, %s) AND pid <> pg_backend_pid()
"""


def session_name(owner: str, attempt: int, subtask: int | str) -> str:
    """The name of a session, which servers cut off after 63 letters: the owner by its digest."""
    return f"{_session_prefix(owner)}a{attempt}_{subtask}"


def _session_prefix(owner: str) -> str:
    return f"mainstay_{owner.rsplit('_', 1)[-1]}_"


def place_beside(table: Sequence[str], name: str) -> tuple[str, ...]:
    """The name of a table of ours, in the schema of the target."""
    return (*table[:-1], name)


def text_of(place: Sequence[str]) -> str:
    """A quoted name as text."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in place)


def define(session: Session, place: Sequence[str], definition: Any) -> None:
    """Make a table of ours where there is none. It may have been made by somebody else."""
    if session.ask("SELECT to_regclass(%s) IS NULL", [text_of(place)]) == [(False,)]:
        return
    errors = driver().errors
    # Several do this at once, and the server does not put them in line.
    by_others = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)
    try:
        session.run(definition)
    except SinkError as error:
        if not isinstance(error.__cause__, by_others):
            raise


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of one sink."""

    server: Server
    owner: str
    place: tuple[str, ...]

    @staticmethod
    def beside(table: Sequence[str], server: Server, owner: str) -> Fence:
        return Fence(server, owner, place_beside(table, FENCE))

    def admit(self, session: Session, attempt: int, token: str) -> int:
        """Raise the fence to an attempt and end the sessions of others; gives its term.

        It may be called again with the same token.
        """
        terms = (*self.place[:-1], TERMS)
        names = {"fence": identifier(self.place), "terms": identifier(terms)}
        define(session, self.place, composed(DEFINITION, **names))
        names["terms"] = text_of(terms)
        session.run(composed(_RAISE, owner=self.owner, attempt=attempt, token=token, **names))
        query = "SELECT attempt, term, token FROM {} WHERE owner = {}"
        ((admitted, term, holder),) = session.ask(composed(query, names["fence"], self.owner))
        if (admitted, holder) != (attempt, token):
            raise self._taken(attempt, admitted)
        session.ask("SELECT pg_notify(%s, %s)", [CHANNEL, self.owner])
        self._end_other_sessions(session, attempt)
        return term  # type: ignore[no-any-return]

    def await_admission(self, session: Session, attempt: int) -> int:
        """The term of an attempt, once it is admitted."""
        until = time.monotonic() + self.server.timeout_s
        session.run(f"LISTEN {CHANNEL}")
        while (term := self._term(session, attempt)) is None:
            if time.monotonic() > until:
                raise UnavailableError(
                    f"{self.server}: attempt {attempt} of {self.owner!r} has not been admitted "
                    f"within {self.server.timeout_s:g} s; the driver has to reach the database, too"
                )
            session.await_notice(min(LOOK_AGAIN_S, self.server.timeout_s / 2))
        session.run(f"UNLISTEN {CHANNEL}")
        return term

    def _term(self, session: Session, attempt: int) -> int | None:
        if session.ask("SELECT to_regclass(%s) IS NULL", [text_of(self.place)]) == [(True,)]:
            return None
        query = "SELECT attempt, term FROM {} WHERE owner = {}"
        for admitted, term in session.ask(composed(query, identifier(self.place), self.owner)):
            if admitted > attempt:
                raise FencedError(
                    f"{self.server} listens to attempt {admitted} of {self.owner!r}, and this is "
                    f"attempt {attempt}: a newer one has taken over."
                )
            if admitted == attempt:
                return term  # type: ignore[no-any-return]
        return None

    def _end_other_sessions(self, session: Session, attempt: int) -> None:
        prefix = _session_prefix(self.owner)
        ours = f"{prefix}a{attempt}_"
        for pid, name in session.ask(_OTHERS, [prefix]):
            if not name.startswith(ours):
                end_session(session, pid, name)

    def _taken(self, attempt: int, admitted: int) -> RestoreError:
        # No restart helps; the number of an attempt would only come nearer to that of another job.
        return RestoreError(
            f"{self.server} listens to attempt {admitted} of {self.owner!r}, and this is attempt "
            f"{attempt}. Either a newer attempt of this job has taken over, and there is nothing "
            "to do; or another job has the same name. Give this one another name, or, if the other "
            f"will never run again, DELETE FROM {text_of(self.place)} WHERE owner = "
            f"'{self.owner}'."
        )


def end_session(session: Session, pid: int, name: str) -> None:
    """End a session and wait until it is gone, if it still is the one of that name."""
    query = (
        "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
        "WHERE pid = %s AND application_name = %s"
    )
    if session.ask(query, [int(ENDING_S * 1000), pid, name]) == [(False,)]:
        raise UnavailableError(
            f"{session.server}: session {pid} ({name}) does not end; it is tried again"
        )


def new_token() -> str:
    """A text by which an admission is known for the one that this process has made."""
    return uuid.uuid4().hex
