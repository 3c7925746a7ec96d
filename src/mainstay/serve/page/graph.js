// The graph: a card for each task, laid out in layers, with the worst of its subtasks in words.

import { h, s, setText, setAttribute, nothing } from "./dom.js";
import { brief, many, percent, elapsed, rate } from "./format.js";
import { TURN, arrow, drawn } from "./edges.js";
import { layered, wrapped } from "./layout.js";
import { Strip, isHeld } from "./strip.js";

const PADDING = 14;
const LINE_GAP = 40;
const KINDS = { source: "▷", sink: "◁", keyed: "◆", loop: "↻", rows: "○", "": "○" };

/** The tasks of a graph. Where it has none (a directory alone), each operator stands for itself. */
function tasksOf(graph) {
    if (graph.tasks.length) return graph.tasks;
    return graph.operators.map(({ uid, parallelism }) => ({
        id: uid,
        operators: [uid],
        parallelism,
    }));
}

export class Graph {
    constructor(chosen) {
        this.chosen = chosen;
        this.cards = new Map();
        this.lines = s("svg", { class: "edges", "aria-hidden": "true" });
        this.plane = h("div", { class: "plane" });
        this.frame = h("div", { class: "graph", tabindex: "-1" }, this.plane);
        this.note = h("p", { class: "note", hidden: true });
        this.element = h("div", {}, this.frame, this.note);
        this.watcher = new ResizeObserver(() => this.#place());
        this.watcher.observe(this.frame);
    }

    /** Draw another graph; the figures follow with `update`. */
    draw(graph) {
        const key = JSON.stringify(graph);
        if (key === this.drawn) return;
        this.drawn = key;
        this.graph = graph;
        const tasks = tasksOf(graph);
        const operators = new Map(graph.operators.map((each) => [each.uid, each]));
        this.cards = new Map(
            tasks.map((task) => [task.id, new Card(task, operators, this.chosen)]),
        );
        this.edges = taskEdges(graph, tasks);
        const cards = [...this.cards.values()].map((each) => each.element);
        this.plane.replaceChildren(
            ...(tasks.length
                ? [this.lines, ...cards]
                : [nothing("No graph is known yet. It comes with the first attempt.")]),
        );
        const isLoose = tasks.length > 1 && !graph.edges.length;
        this.note.hidden = !isLoose;
        setText(
            this.note,
            "The snapshots have the operators with state, and not how they are joined.",
        );
        this.extent = "";
        this.#place();
    }

    update(tasks, isRunning) {
        for (const task of tasks) this.cards.get(task.task)?.update(task, isRunning);
        const sizes = [...this.cards.values()].map((each) => each.element.offsetHeight).join();
        if (sizes !== this.sizes) this.#place();
    }

    select(id) {
        for (const [task, card] of this.cards) card.select(task === id);
    }

    /** With the flow from left to right where there is room. */
    #place() {
        const room = this.frame.clientWidth - 2 * PADDING;
        if (!this.cards.size || room <= 0) return;
        const nodes = [...this.cards].map(([id, card]) => ({
            id,
            width: card.element.offsetWidth,
            height: card.element.offsetHeight,
        }));
        this.sizes = nodes.map((each) => each.height).join();
        const extent = `${room} ${this.sizes} ${this.drawn.length}`;
        if (extent === this.extent) return;
        this.extent = extent;
        if (!this.edges.length) {
            this.#inRows(nodes, room);
            return;
        }
        const across = this.#layout(nodes, false);
        if (across.along <= room) {
            this.#show(across, false, room);
            return;
        }
        // Too long for one line: from top to bottom, or in several lines, by what is shorter.
        const down = this.#layout(nodes, true);
        const lines = wrapped(across, room - 2 * TURN, LINE_GAP);
        const isDown = down.across <= room && down.along <= lines.across;
        this.#show(isDown ? down : lines, isDown, room);
    }

    #layout(nodes, isDown) {
        const sized = nodes.map(({ id, width, height }) =>
            isDown ? { id, along: height, across: width } : { id, along: width, across: height },
        );
        return layered(sized, this.edges, {
            gapAlong: isDown ? 44 : 68,
            gapAcross: isDown ? 18 : 20,
        });
    }

    #inRows(nodes, room) {
        let [x, y, tallest, widest] = [0, 0, 0, 0];
        const places = new Map();
        for (const { id, width, height } of nodes) {
            if (x && x + width > room) [x, y, tallest] = [0, y + tallest + 16, 0];
            places.set(id, { u: x, v: y, along: width, across: height });
            x += width + 16;
            tallest = Math.max(tallest, height);
            widest = Math.max(widest, x - 16);
        }
        this.#show({ places, ways: [], along: widest, across: y + tallest }, false, room);
    }

    #show({ places, ways, along, across }, isDown, room) {
        const back = ways.some((each) => each.isBack) ? 34 : 0;
        const width = (isDown ? across : along) + (isDown ? back : 0);
        const height = (isDown ? along : across) + (isDown ? 0 : back);
        const left = Math.max(0, (room - width) / 2);
        const xy = (u, v) =>
            isDown ? [PADDING + left + v, PADDING + u] : [PADDING + left + u, PADDING + v];
        for (const [id, card] of this.cards) {
            const [x, y] = xy(places.get(id).u, places.get(id).v);
            card.element.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
        }
        this.plane.style.height = `${height + 2 * PADDING}px`;
        this.plane.style.width = `${Math.max(width, room) + 2 * PADDING}px`;
        setAttribute(this.lines, "width", Math.max(width, room) + 2 * PADDING);
        setAttribute(this.lines, "height", height + 2 * PADDING);
        const parts = ways.map((way) => drawn(way, xy, across));
        // Labels last, so that no line crosses one.
        this.lines.replaceChildren(
            arrow(),
            ...parts.map(([line]) => line),
            ...parts.flatMap(([, ...label]) => label),
        );
    }
}

/** The edges between tasks; those inside a task are a chain. */
function taskEdges(graph, tasks) {
    const taskOf = new Map(tasks.flatMap(({ id, operators }) => operators.map((uid) => [uid, id])));
    const found = new Map();
    for (const each of graph.edges) {
        const [from, to] = [taskOf.get(each.from), taskOf.get(each.to)];
        if (from === undefined || to === undefined || (from === to && each.kind !== "loop"))
            continue;
        found.set(`${from}>${to}>${each.kind}>${each.side}`, {
            from,
            to,
            kind: each.kind,
            side: each.side,
            isLoop: each.kind === "loop",
        });
    }
    return [...found.values()];
}

/** A task: its operators, its rate, what is in line, and a bar for every subtask. */
class Card {
    constructor(task, operators, chosen) {
        this.strip = new Strip();
        this.rate = h("b", {});
        this.line = h("span", {});
        this.worst = h("span", { class: "worst" });
        this.held = h("span", { class: "mute-note", hidden: true });
        const names = task.operators.map((uid) => operatorRow(operators.get(uid), uid));
        names[0].append(h("span", { class: "times" }, `×${task.parallelism}`));
        this.figures = h(
            "span",
            { class: "figures", hidden: true },
            h("span", { class: "pace" }, h("span", {}, this.rate, " rows/s"), this.line),
            this.strip.element,
            this.worst,
            this.held,
        );
        this.element = h(
            "button",
            {
                class: "card",
                type: "button",
                "data-task": task.id,
                "aria-pressed": "false",
                on: { click: () => chosen(task.id) },
            },
            h("span", { class: "operators" }, ...names),
            this.figures,
        );
    }

    update(task, isRunning) {
        this.figures.hidden = !task.subtasks.length;
        setText(this.rate, rate(task.rows_per_s));
        setText(this.line, task.waiting_rows ? `${brief(task.waiting_rows)} in line` : "");
        this.strip.update(task.subtasks);
        const mute = task.subtasks.filter(isHeld);
        const idle = task.subtasks.length ? Math.min(...task.subtasks.map((each) => each.idle)) : 1;
        setText(
            this.worst,
            isRunning
                ? `busy ${percent(task.busy)} · held ${percent(task.backpressured)} · idle ${percent(idle)}`
                : "not running",
        );
        setAttribute(
            this.worst,
            "title",
            "of the worst subtask: most busy, most held back, least idle",
        );
        this.held.hidden = !mute.length;
        if (mute.length) {
            const longest = Math.max(...mute.map((each) => each.report_age_s));
            setText(
                this.held,
                `▲ ${mute.length} of ${task.subtasks.length} silent for ${elapsed(longest)}`,
            );
        }
        setAttribute(
            this.element,
            "data-state",
            mute.length
                ? "mute"
                : task.backpressured >= 0.5
                  ? "held"
                  : task.busy >= 0.8
                    ? "busy"
                    : "calm",
        );
        setAttribute(
            this.element,
            "title",
            `${task.operators.join(" → ")}: ${many(task.rows, "row")} so far. Click for its subtasks.`,
        );
    }

    select(isSelected) {
        setAttribute(this.element, "aria-pressed", isSelected);
    }
}

function operatorRow(operator, uid) {
    const states = operator?.states ?? [];
    const held = states.length
        ? h(
              "span",
              { class: "states", title: `states: ${states.join(", ")}` },
              many(states.length, "state"),
          )
        : null;
    return h(
        "span",
        { class: "operator" },
        h(
            "span",
            { class: "glyph", title: operator?.kind || "operator" },
            KINDS[operator?.kind ?? ""] ?? "○",
        ),
        h("span", { class: "uid", title: operator?.name || uid }, uid),
        held,
    );
}
