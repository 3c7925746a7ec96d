"""Requests made from the OpenAPI document: what it allows is answered as it says, the rest refused.

The running job is asked to show things; what would change it is asked of a directory.
"""

from __future__ import annotations

from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from mainstay.serve.app import routed
from mainstay.serve.events import Events
from mainstay.serve.stored import StoredView

EXAMPLES = 5
UNREAD = StoredView.__new__(StoredView)
READS = routed(UNREAD, Events(UNREAD)).openapi()
whole = schemathesis.openapi.from_dict(READS)
shows = whole.include(path_regex=r"^/api/v1").exclude(tag="actions")
few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@whole.parametrize()
@few
def test_a_directory_answers_as_its_document_says(case: Any, offline: httpx.Client) -> None:
    check(case, offline)


@shows.parametrize()
@few
def test_a_running_job_answers_as_its_document_says(case: Any, client: httpx.Client) -> None:
    check(case, client)


def check(case: Any, client: httpx.Client) -> None:
    if isinstance(case.body, dict) and case.body.get("after"):
        case.body["timeout_s"] = 0.05  # that epoch will not come
    headers = {"Authorization": client.headers["Authorization"]}
    response = case.call(base_url=str(client.base_url), headers=headers)
    # Which keys a state has, and what is SQL, is more than a schema can say.
    unfit = [positive_data_acceptance]
    if response.status_code in (503, 504):
        # Not ready, and not in time: both are answers.
        unfit.append(not_a_server_error)
    case.validate_response(response, excluded_checks=unfit, headers=headers)


def test_every_route_is_in_the_document_but_those_that_have_no_schema(
    client: httpx.Client,
) -> None:
    document = client.get("/openapi.json").json()
    assert sorted(document["paths"]) == [
        *(f"/api/v1/{name}" for name in ("attempts", "cancel", "epochs", "epochs/{epoch}")),
        *(f"/api/v1/{name}" for name in ("failures", "graph", "job", "key_groups/{operator}")),
        "/api/v1/output",
        *(f"/api/v1/{name}" for name in ("query", "recoveries", "rescale", "savepoint", "sql")),
        *(f"/api/v1/{name}" for name in ("states", "stop", "tasks", "timeline")),
        "/healthz",
        "/readyz",
    ]
    assert document["security"] == [{"token": []}]
