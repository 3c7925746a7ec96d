// A layered layout: each node one layer behind those that send to it, and few crossings.
// Pure: sizes in, places out. `u` runs along the flow and `v` across it.

const SWEEPS = 6;

/**
 * nodes: [{ id, along, across }], edges: [{ from, to }]; those that close a loop are found here.
 * Gives { places: Map(id -> { u, v, along, across }), ways: [{ edge, points, isBack }], along, across }.
 */
export function layered(nodes, edges, { gapAlong = 64, gapAcross = 24 } = {}) {
    const back = backEdges(nodes, edges);
    const forward = edges.filter((edge) => !back.has(edge));
    const layerOf = layers(nodes, forward);
    const { rows, chains } = withBends(nodes, forward, layerOf);
    untangle(rows, chains);
    const places = placed(rows, gapAlong, gapAcross);
    const at = (id) => places.get(id);
    const ways = edges.map((edge) => ({
        edge,
        isBack: back.has(edge),
        points: (chains.get(edge) ?? [edge.from, edge.to]).map(at),
    }));
    const all = [...places.values()];
    return {
        places,
        ways,
        along: Math.max(0, ...all.map((each) => each.u + each.along)),
        across: Math.max(0, ...all.map((each) => each.v + each.across)),
    };
}

/**
 * Breaks a flow that is longer than the room into lines, as text is broken. Each place gets its
 * `line`, and `top`: where lines of edges pass above it.
 */
export function wrapped({ places, ways }, room, gap) {
    const moved = new Map();
    const all = [...places.values()];
    let [line, first, along] = [0, 0, 0];
    for (const u of [...new Set(all.map((each) => each.u))].sort((a, b) => a - b)) {
        const layer = all.filter((each) => each.u === u);
        const end = u + Math.max(...layer.map((each) => each.along));
        if (end - first > room && u > first) [line, first] = [line + 1, u];
        along = Math.max(along, end - first);
        for (const each of layer) moved.set(each, { ...each, u: u - first, line });
    }
    const across = stacked([...moved.values()], line, gap);
    return {
        places: new Map([...places].map(([id, each]) => [id, moved.get(each)])),
        ways: ways.map((way) => ({ ...way, points: way.points.map((each) => moved.get(each)) })),
        along,
        across,
    };
}

/** Puts lines below each other, each as high as what it holds; gives the height of all. */
function stacked(places, last, gap) {
    let v = 0;
    for (let line = 0; line <= last; line += 1) {
        const own = places.filter((each) => each.line === line);
        const up = Math.min(...own.map((each) => each.v));
        const height = Math.max(...own.map((each) => each.v + each.across)) - up;
        for (const each of own) Object.assign(each, { v: each.v - up + v, top: v - gap / 2 });
        v += height + gap;
    }
    return v - gap;
}

/** The edges that lead back to where a walk has come from. */
function backEdges(nodes, edges) {
    const found = new Set();
    const state = new Map();
    const visit = (id) => {
        state.set(id, "open");
        for (const edge of edges.filter((each) => each.from === id)) {
            if (edge.isLoop || state.get(edge.to) === "open") found.add(edge);
            else if (!state.has(edge.to)) visit(edge.to);
        }
        state.set(id, "done");
    };
    for (const { id } of nodes) if (!state.has(id)) visit(id);
    return found;
}

function layers(nodes, edges) {
    const layerOf = new Map(nodes.map(({ id }) => [id, 0]));
    for (let pass = 0, changed = true; changed && pass <= nodes.length; pass += 1) {
        changed = false;
        for (const { from, to } of edges) {
            if (layerOf.get(to) <= layerOf.get(from)) {
                layerOf.set(to, layerOf.get(from) + 1);
                changed = true;
            }
        }
    }
    return layerOf;
}

/** Edges over several layers get a bend in each, so that they pass between nodes. */
function withBends(nodes, edges, layerOf) {
    const rows = [];
    const add = (layer, item) => (rows[layer] ??= []).push(item);
    for (const node of nodes) add(layerOf.get(node.id), { ...node, isBend: false });
    const chains = new Map();
    edges.forEach((edge, number) => {
        const chain = [edge.from];
        for (let layer = layerOf.get(edge.from) + 1; layer < layerOf.get(edge.to); layer += 1) {
            const id = `bend-${number}-${layer}`;
            add(layer, { id, along: 0, across: 14, isBend: true });
            chain.push(id);
        }
        chains.set(edge, [...chain, edge.to]);
    });
    return { rows, chains };
}

/** Sorts each layer by the mean place of its neighbours, forwards and backwards by turns. */
function untangle(rows, chains) {
    const before = new Map();
    const after = new Map();
    for (const chain of chains.values()) {
        for (let i = 1; i < chain.length; i += 1) {
            (before.get(chain[i]) ?? before.set(chain[i], []).get(chain[i])).push(chain[i - 1]);
            (after.get(chain[i - 1]) ?? after.set(chain[i - 1], []).get(chain[i - 1])).push(
                chain[i],
            );
        }
    }
    for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
        const isForward = sweep % 2 === 0;
        const order = isForward ? rows : [...rows].reverse();
        const place = new Map();
        for (const row of order) {
            const neighbours = isForward ? before : after;
            const mean = (item, index) => {
                const known = (neighbours.get(item.id) ?? [])
                    .map((id) => place.get(id))
                    .filter((p) => p !== undefined);
                return known.length
                    ? known.reduce((a, b) => a + b, 0) / known.length
                    : (index + 0.5) / row.length;
            };
            const keyed = row.map((item, index) => [mean(item, index), index, item]);
            keyed.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
            keyed.forEach(([, , item], index) => {
                row[index] = item;
                place.set(item.id, (index + 0.5) / row.length);
            });
        }
    }
}

function placed(rows, gapAlong, gapAcross) {
    const size = (row) =>
        row.reduce((sum, each) => sum + each.across, gapAcross * (row.length - 1));
    const widest = Math.max(0, ...rows.map(size));
    const places = new Map();
    let u = 0;
    for (const row of rows) {
        const along = Math.max(0, ...row.map((each) => each.along));
        let v = (widest - size(row)) / 2;
        for (const each of row) {
            places.set(each.id, {
                u,
                v,
                along: each.isBend ? along : each.along,
                across: each.across,
            });
            v += each.across + gapAcross;
        }
        u += along + gapAlong;
    }
    return places;
}
