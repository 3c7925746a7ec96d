"""The dataflow of a job as a document: operators, the edges between them, and tasks."""

from __future__ import annotations

from mainstay.runtime.shape import shape_of
from mainstay.runtime.spec import JobSpec
from mainstay.serve.documents import EdgeDocument, GraphDocument, OperatorDocument, TaskDocument
from mainstay.snapshot.graphs import Graph, GraphEdge, GraphOperator
from mainstay.snapshot.manifest import Manifest


def graph_of(spec: JobSpec) -> GraphDocument:
    """The graph of a job that runs in this process."""
    return _document(shape_of(spec), is_live=True)


def stored_graph(graph: Graph | None, manifest: Manifest | None) -> GraphDocument:
    """The graph as it is stored. Where none is, the operators that an epoch has something of; how
    they are joined a manifest does not say."""
    if graph is not None:
        return _document(graph, is_live=False)
    stored = () if manifest is None else manifest.operators.values()
    operators = [
        OperatorDocument(
            uid=each.uid,
            kind="keyed" if each.key_type is not None else "",
            name="",
            parallelism=each.parallelism,
            task="",
            states=[state.name for state in each.states],
        )
        for each in stored
    ]
    return GraphDocument(is_live=False, operators=operators, edges=[], tasks=[])


def _document(graph: Graph, *, is_live: bool) -> GraphDocument:
    return GraphDocument(
        is_live=is_live,
        operators=[_operator(each) for each in graph.operators],
        edges=[_edge(each) for each in graph.edges],
        tasks=[
            TaskDocument(id=each.id, operators=list(each.operators), parallelism=each.parallelism)
            for each in graph.tasks
        ],
    )


def _operator(operator: GraphOperator) -> OperatorDocument:
    return OperatorDocument(
        uid=operator.uid,
        kind=operator.kind,
        name=operator.name,
        parallelism=operator.parallelism,
        task=operator.task,
        states=list(operator.states),
    )


def _edge(edge: GraphEdge) -> EdgeDocument:
    known = {"from": edge.sender, "to": edge.receiver, "kind": edge.kind, "side": edge.side}
    return EdgeDocument.model_validate(known)
