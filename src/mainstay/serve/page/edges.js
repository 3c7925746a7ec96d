// The edges of the graph as lines: through the layers, around to the next line, and back for loops.

import { s } from "./dom.js";

/** How much room a turn from one line of the flow to the next needs at its side. */
export const TURN = 20;
const EDGES = {
    key: "by key",
    rebalance: "in turn",
    partition: "by partition",
    broadcast: "to all",
    forward: "",
    loop: "loop",
};

/** The head of every edge. */
export function arrow() {
    const shape = s("path", { d: "M0 0L7 3.5L0 7z", class: "arrow" });
    const marker = s(
        "marker",
        {
            id: "arrow",
            viewBox: "0 0 7 7",
            refX: "6.5",
            refY: "3.5",
            markerWidth: "7",
            markerHeight: "7",
            orient: "auto",
        },
        shape,
    );
    return s("defs", {}, marker);
}

/** The line of an edge, and its label where it has one. */
export function drawn({ edge, points, isBack }, xy, across) {
    const path = isBack ? around(points, xy, across) : through(points, xy);
    const words = [edge.side, EDGES[edge.kind]].filter(Boolean).join(" ");
    const label = words
        ? [s("text", { x: path.label[0], y: path.label[1] - 5, class: "edge-label" }, words)]
        : [];
    return [
        s("path", { d: path.d, class: `edge edge-${edge.kind}`, "marker-end": "url(#arrow)" }),
        ...label,
    ];
}

function through(points, xy) {
    const middle = (each) => each.v + each.across / 2;
    const parts = [];
    let label = null;
    points.slice(1).forEach((to, index) => {
        const from = points[index];
        const [start, end] = [
            [from.u + from.along, middle(from)],
            [to.u, middle(to)],
        ];
        if (index) parts.push(`L${xy(...start).join(" ")}`);
        else parts.push(`M${xy(...start).join(" ")}`);
        parts.push(to.line === from.line ? curve(start, end, xy) : turned(end, to.top, xy));
        label ??=
            to.line === from.line
                ? xy((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
                : xy((start[0] + end[0]) / 2, to.top);
    });
    return { d: parts.join(""), label };
}

function curve(start, end, xy) {
    const half = (start[0] + end[0]) / 2;
    return `C${[xy(half, start[1]), xy(half, end[1]), xy(...end)].map((each) => each.join(" ")).join(" ")}`;
}

/** From the end of a line to the beginning of the next, between the two. */
function turned(end, between, xy) {
    const [x2, y2] = xy(...end);
    const [, y] = xy(0, between);
    const r = TURN / 2;
    return (
        `h${r}q${r} 0 ${r} ${r}V${y - r}q0 ${r} ${-r} ${r}H${x2 - r}` +
        `q${-r} 0 ${-r} ${r}V${y2 - r}q0 ${r} ${r} ${r}H${x2}`
    );
}

/** Back to an earlier task, outside of everything. */
function around([first, last], xy, across) {
    const [from, to] = [
        xy(first.u + first.along / 2, first.v + first.across),
        xy(last.u + last.along / 2, last.v + last.across),
    ];
    const beyond = across + 26;
    const [c, d] = [xy(first.u + first.along / 2, beyond), xy(last.u + last.along / 2, beyond)];
    return {
        d: `M${from.join(" ")}C${c.join(" ")} ${d.join(" ")} ${to.join(" ")}`,
        label: xy((first.u + last.u + first.along) / 2, across + 20),
    };
}
