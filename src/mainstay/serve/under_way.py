"""Requests that are being answered: a program that ends with its job waits for these answers."""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainstay.serve.refusals import RefusedError, document_of

ENDING = RefusedError(
    503,
    "internal",
    "the process of the job ends before it has answered. What the job has committed can be asked "
    "by its snapshot directory.",
    "UnreachableError",
)


class UnderWay:
    """Counts requests that ask for something to be done, until their answers are sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Pages that listen for events are answered for ever, and are not waited for.
        is_counted, has_begun = scope.get("method") == "POST", False
        self._count += is_counted

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:
            # The server ends, and has waited for this answer as long as it does.
            if has_begun:
                raise
            answer = JSONResponse(document_of(ENDING).model_dump(), ENDING.status)
            await answer(scope, receive, send)
        finally:
            self._count -= is_counted
