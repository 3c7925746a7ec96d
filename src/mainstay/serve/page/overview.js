// The first view: the verdict, the main figures, the graph, and the newest epochs.

import { h, nothing, panel, redraw } from "./dom.js";
import { legend } from "./epochs.js";
import { Figures } from "./figures.js";
import { Graph } from "./graph.js";
import { Scatter } from "./scatter.js";
import { Subtasks } from "./subtasks.js";
import { Verdict } from "./verdict.js";

const EPOCHS = 120;

export class Overview {
    constructor(app) {
        this.app = app;
        this.verdict = new Verdict();
        this.figures = new Figures();
        this.subtasks = new Subtasks(() => this.#choose(null));
        this.graph = new Graph((task) => this.#choose(task === this.task ? null : task));
        this.scatter = new Scatter(150, (epoch) => app.go(`epochs/${epoch}`));
        this.none = h("div", {});
        this.key = h(
            "p",
            { class: "legend" },
            ...[
                ["busy", "busy"],
                ["held", "held back"],
                ["idle", "idle"],
                ["mute", "silent"],
            ].map(([kind, text]) => h("span", { class: `key key-${kind}` }, text)),
        );
        this.element = h(
            "div",
            { class: "view" },
            this.verdict.element,
            this.figures.element,
            panel("Dataflow", [this.graph.element, this.none], this.key),
            this.subtasks.element,
            panel("Newest epochs", this.scatter.element, legend()),
        );
    }

    show([task]) {
        this.task = task === undefined ? null : decodeURIComponent(task);
    }

    #choose(task) {
        this.app.go(task === null ? "overview" : `overview/${encodeURIComponent(task)}`);
    }

    update(model) {
        this.verdict.update(model);
        this.figures.update(model);
        if (model.graph) this.graph.draw(model.graph);
        const tasks = model.tasks?.tasks ?? [];
        this.graph.update(tasks, model.job.status === "running");
        this.graph.select(this.task);
        this.key.hidden = !tasks.length;
        const chosen = tasks.find((each) => each.task === this.task) ?? null;
        this.subtasks.show(chosen);
        const isBare = this.task !== null && !chosen && model.graph !== null;
        redraw(this.none, isBare, () =>
            isBare ? nothing("Figures of its subtasks are known while the job runs here.") : [],
        );
        this.scatter.update(model.sortedEpochs().slice(-EPOCHS), null);
    }
}
