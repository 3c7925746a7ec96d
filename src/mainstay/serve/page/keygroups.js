// Key-groups as a strip of heat for each operator with keyed state, and the keys that are hot.

import { h, nothing, panel, redraw, s, setText } from "./dom.js";
import { bytes, count, many, percent } from "./format.js";
import { hotKeys, hotTable } from "./subtasks.js";

const EVERY_S = 10;
const LARGEST = 5;
const NAMED = 12;

export class KeyGroups {
    constructor(app) {
        this.app = app;
        this.measure = "rows";
        this.strips = new Map();
        this.list = h("div", { class: "stack" });
        this.hot = h("div", {});
        this.hotPanel = panel("Hot keys", this.hot);
        const choice = h(
            "div",
            { class: "choice", role: "radiogroup", "aria-label": "what the colour shows" },
            ...[
                ["rows", "rows"],
                ["size_bytes", "bytes"],
            ].map(([field, text]) => this.#option(field, text)),
        );
        this.element = h(
            "div",
            { class: "view" },
            panel(
                "Key-groups of the latest epoch",
                [
                    h(
                        "p",
                        { class: "note" },
                        "Each cell is a key-group, the darker the more it holds. Below is the share of each subtask. Stored rows are counted, changes among them.",
                    ),
                    this.list,
                ],
                choice,
            ),
            this.hotPanel,
        );
    }

    #option(field, text) {
        const change = () => {
            this.measure = field;
            for (const each of this.strips.values()) each.draw(this.measure);
        };
        const input = h("input", {
            type: "radio",
            name: "measure",
            value: field,
            checked: field === this.measure,
            on: { change },
        });
        return h("label", {}, input, h("span", {}, text));
    }

    show() {
        this.askedAt = 0;
    }

    update(model) {
        const keyed = (model.graph?.operators ?? []).filter(
            (each) => each.kind === "keyed" && each.states.length,
        );
        redraw(this.list, [keyed.map((each) => each.uid), model.job.epoch === null], () =>
            this.#begun(keyed, model),
        );
        const isDue = model.job.epoch !== this.epoch && model.now - (this.askedAt ?? 0) > EVERY_S;
        if (isDue && this.strips.size) this.#load(model);
        this.#showHot(model);
    }

    #begun(keyed, model) {
        this.epoch = null;
        this.strips = new Map(keyed.map((each) => [each.uid, new HeatStrip(each.uid)]));
        if (!keyed.length)
            return nothing(
                model.graph ? "No operator has keyed state." : "The graph is not known yet.",
            );
        if (model.job.epoch === null)
            return nothing(
                "There is no complete epoch yet; key-groups are counted from its files.",
            );
        return [...this.strips.values()].map((each) => each.element);
    }

    async #load(model) {
        this.epoch = model.job.epoch;
        this.askedAt = model.now;
        await Promise.all(
            [...this.strips].map(async ([uid, strip]) => {
                try {
                    strip.take(
                        await this.app.api.get(`key_groups/${encodeURIComponent(uid)}`),
                        this.measure,
                    );
                } catch (error) {
                    strip.refuse(error.message);
                }
            }),
        );
    }

    #showHot(model) {
        const found = (model.tasks?.tasks ?? [])
            .flatMap(hotKeys)
            .sort((a, b) => b.share - a.share)
            .slice(0, 20);
        this.hotPanel.hidden = !found.length;
        redraw(this.hot, found, () => (found.length ? hotTable(found) : []));
    }
}

/** One operator. The arrow keys go from group to group. */
class HeatStrip {
    constructor(uid) {
        this.uid = uid;
        this.summary = h("p", { class: "summary" }, "…");
        this.said = h("p", { class: "said", "aria-live": "polite" });
        this.shares = h("div", { class: "shares" });
        this.svg = s("svg", { class: "heat", preserveAspectRatio: "none", viewBox: "0 0 1 34" });
        this.frame = h(
            "div",
            {
                class: "heat-frame",
                tabindex: "0",
                role: "application",
                "aria-label": `Key-groups of ${uid}. The arrow keys go from group to group.`,
                on: {
                    keydown: (event) => this.#key(event),
                    pointermove: (event) => this.#hover(event),
                },
            },
            this.svg,
        );
        this.element = h(
            "article",
            { class: "groups", "data-operator": uid },
            h("h3", {}, h("code", {}, uid)),
            this.summary,
            this.frame,
            this.shares,
            this.said,
        );
        this.at = -1;
    }

    take(found, measure) {
        this.found = found;
        this.draw(measure);
    }

    refuse(text) {
        setText(this.summary, text);
    }

    draw(measure) {
        if (!this.found) return;
        this.measure = measure;
        const { groups } = this.found;
        const show = measure === "rows" ? count : bytes;
        const all = groups.reduce((sum, each) => sum + each[measure], 0);
        const most = Math.max(1, ...groups.map((each) => each[measure]));
        redraw(this.svg, [groups, measure], () => this.#cells(groups, most));
        redraw(this.shares, [groups, measure], () => shares(groups, measure, all));
        const largest = [...groups]
            .sort((a, b) => b[measure] - a[measure])
            .slice(0, LARGEST)
            .filter((each) => each[measure] > 1.5 * (all / groups.length));
        const skew =
            this.found.skew === null
                ? ""
                : ` The largest has ${this.found.skew.toFixed(1)} times the mean.`;
        const named = largest.length
            ? ` Most: ${largest.map((each) => `${each.group} (subtask ${each.subtask}, ${percent(each[measure] / all)})`).join(", ")}.`
            : "";
        setText(
            this.summary,
            groups.length
                ? `Epoch ${count(this.found.epoch)}: ${show(all)}${measure === "rows" ? " rows" : ""} in ${many(groups.length, "group")}.${skew}${named}`
                : "Its state is not keyed.",
        );
        this.#say();
    }

    #cells(groups, most) {
        this.svg.setAttribute("viewBox", `0 0 ${groups.length} 34`);
        const cells = groups.map((each, index) =>
            s("rect", {
                x: index,
                y: 0,
                width: 1.02,
                height: 26,
                class: "cell",
                "fill-opacity": (0.06 + 0.94 * Math.sqrt(each[this.measure] / most)).toFixed(3),
                "data-group": each.group,
            }),
        );
        const borders = groups.slice(1).flatMap((each, index) =>
            each.subtask === groups[index].subtask
                ? []
                : [
                      s("rect", {
                          x: index + 1 - 0.06,
                          y: 26,
                          width: 0.12,
                          height: 8,
                          class: "border",
                      }),
                  ],
        );
        this.mark = s("rect", { class: "cursor", y: 0, width: 1, height: 26, x: -2 });
        return [...cells, ...borders, this.mark];
    }

    #key(event) {
        const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
        if (step === undefined || !this.found) return;
        event.preventDefault();
        this.at = Math.min(Math.max(this.at + step, 0), this.found.groups.length - 1);
        this.#say();
    }

    #hover(event) {
        if (!this.found) return;
        const box = this.svg.getBoundingClientRect();
        const part = (event.clientX - box.left) / box.width;
        this.at = Math.min(
            Math.max(Math.floor(part * this.found.groups.length), 0),
            this.found.groups.length - 1,
        );
        this.#say();
    }

    #say() {
        const each = this.found.groups[this.at];
        if (!each) return;
        this.mark?.setAttribute("x", this.at);
        setText(
            this.said,
            `Key-group ${each.group}, subtask ${each.subtask}: ${many(each.rows, "row")}, ${bytes(each.size_bytes)}`,
        );
    }
}

/** What each subtask has of all, below its groups, where there is room to say it. */
function shares(groups, measure, all) {
    const bySubtask = new Map();
    for (const each of groups) {
        bySubtask.set(each.subtask, [...(bySubtask.get(each.subtask) ?? []), each]);
    }
    if (bySubtask.size > NAMED || !all) return [];
    return [...bySubtask].map(([subtask, own]) => {
        const part = own.reduce((sum, each) => sum + each[measure], 0) / all;
        const label = h("span", {}, `${subtask}: ${percent(part)}`);
        label.style.flexGrow = own.length;
        return label;
    });
}
