"""Connected components of a growing graph: a loop that carries labels along the edges.

Every node starts with its own number as its label and takes on the lowest that it hears of. What
it takes on it tells its neighbours, round after round, until nobody learns anything new. Edges may
come at any time: the two ends of a new edge tell each other their labels.
"""

import mainstay as ms

MESSAGE = "node long, neighbour long, label long"
"""To ``node``: an edge to ``neighbour``, or a ``label`` that a neighbour has."""


class Label(ms.KeyedProcess):
    label = ms.ValueState("long")
    neighbours = ms.MapState("long", "boolean")

    def process(self, row, ctx):
        own = self.label.get()
        label = ctx.key if own is None else own
        if row.neighbour is not None and not self.neighbours.contains(row.neighbour):
            self.neighbours.put(row.neighbour, True)
            yield row.neighbour, None, label
        if row.label is not None and row.label < label:
            label = row.label
            for neighbour, _ in self.neighbours.items():
                yield neighbour, None, label
        if label != own:
            self.label.update(label)
            yield ctx.key, ctx.key, label  # what goes on: this node and its label


def both_ways(edge):
    yield edge.a, edge.b, None
    yield edge.b, edge.a, None


def build(env, edges, out):
    def body(head):
        told = head.key_by("node").process(Label(), MESSAGE, uid="labels")
        back = told.filter(lambda row: row.neighbour is None)
        labels = told.filter(lambda row: row.neighbour is not None)
        return back, labels

    (
        env.source(edges, uid="edges")
        .flat_map(both_ways, MESSAGE)
        .iterate(body, uid="spread")
        .map(lambda row: (row.node, row.label), "node long, label long")
        .sink(out, uid="out")
    )


if __name__ == "__main__":
    edges = ms.connectors.Rows("a long, b long", [(1, 2), (2, 3), (7, 8), (3, 4), (9, 8)])
    out = ms.connectors.Memory()
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots("./components-snapshots", every="1s"),
        restore="latest-or-new",
    )
    build(env, edges, out)
    job = env.start("components")
    print(job.wait(progress=False))
    for line in job.restored:
        print(line)
    labels = {}
    for node, label in out.rows():
        labels[node] = min(label, labels.get(node, label))
    print(labels)
