"""The routes that show the state of a job: which there is, queries, SQL, key-groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import Response

from mainstay.inspect.answer_streams import answers_as_streams, as_stream
from mainstay.inspect.answers import Answer
from mainstay.serve.documents import (
    AnswerDocument,
    AnswersDocument,
    KeyGroupsDocument,
    SqlDocument,
    StateDocument,
)
from mainstay.serve.moments import moment_of
from mainstay.serve.requests import QueryRequest, SqlRequest, StatesQuery
from mainstay.serve.rows import (
    ARROW,
    as_lists,
    as_objects,
    cut,
    most_rows,
    wants_arrow,
)
from mainstay.serve.view import LATEST, JobView

Accept = Annotated[str, Header(include_in_schema=False)]
_ARROW: dict[int | str, dict[str, Any]] = {
    200: {"content": {ARROW: {"schema": {"type": "string"}}}}
}


def state_routes(view: JobView) -> APIRouter:
    """All of them; most read the storage."""
    router = APIRouter(tags=["state"])

    @router.get("/states")
    def states(wanted: Annotated[StatesQuery, Query()]) -> list[StateDocument]:
        """The states that can be asked for, at an epoch or the latest."""
        return view.states(LATEST if wanted.epoch is None else wanted.epoch)

    @router.get("/key_groups/{operator}")
    def key_groups(operator: Annotated[str, Path(min_length=1)]) -> KeyGroupsDocument:
        """How the state of an operator is spread over key-groups, at the latest epoch."""
        return view.key_groups(operator)

    @router.post("/query", response_model=AnswersDocument, responses=_ARROW)
    def query(request: QueryRequest, accept: Accept = "") -> Any:
        """What states hold, of some keys or of all; in JSON, or as an Arrow stream for each."""
        return _queried(view, request, as_arrow=wants_arrow(accept))

    @router.post("/sql", response_model=SqlDocument, responses=_ARROW)
    def sql(request: SqlRequest, accept: Accept = "") -> Any:
        """The rows of a `SELECT` over states, in JSON or as an Arrow stream."""
        as_arrow = wants_arrow(accept)
        most = most_rows(None, as_arrow=as_arrow)
        table, is_cut = cut(view.sql(request, most), most)
        if as_arrow:
            return _stream(as_stream(table), is_cut)
        return SqlDocument(columns=table.column_names, rows=as_lists(table), is_cut=is_cut)

    return router


def _queried(view: JobView, request: QueryRequest, *, as_arrow: bool) -> Any:
    most = most_rows(request.limit, as_arrow=as_arrow)
    found = view.query(request, most)
    answers = [(state, *_cut(found[state], most)) for state in request.states]
    if as_arrow:
        is_cut, epoch = any(each[2] for each in answers), answers[0][1].epoch
        told = {"X-Mainstay-Epoch": str(epoch)}
        return _stream(answers_as_streams(answers), is_cut, **told)
    return AnswersDocument(
        answers=[
            AnswerDocument(
                state=state, rows=as_objects(each.table), is_cut=is_cut, moment=moment_of(each)
            )
            for state, each, is_cut in answers
        ]
    )


def _cut(answer: Answer, most: int) -> tuple[Answer, bool]:
    table, is_cut = cut(answer.table, most)
    return replace(answer, table=table), is_cut


def _stream(data: bytes, is_cut: bool, **headers: str) -> Response:
    told = {**headers, "X-Mainstay-Cut": "true" if is_cut else "false"}
    return Response(data, media_type=ARROW, headers=told)
