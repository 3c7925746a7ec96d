// The view of epochs: scatter, figures over all of them, a table, and one of them by its subtasks.

import { h, panel, redraw, setText } from "./dom.js";
import { EpochDetail } from "./epoch_detail.js";
import { bytes, count, duration, iso, many, moment, percent } from "./format.js";
import { Scatter } from "./scatter.js";

const SHOWN = 30;
const PAGE = 200;

export class Epochs {
    constructor(app) {
        this.app = app;
        this.scatter = new Scatter(250, (epoch) => app.go(`epochs/${epoch}`));
        this.summary = h("p", { class: "summary" });
        this.older = h(
            "button",
            { class: "quiet", type: "button", on: { click: () => this.#loadOlder() } },
            "Older epochs",
        );
        this.body = h("tbody", {});
        this.detail = new EpochDetail(app);
        const heads = ["Epoch", "Began", "Took", "Written", "In flight", "How it ended"].map(
            (each, index) => h("th", { scope: "col", class: index === 5 ? "text" : null }, each),
        );
        const table = h(
            "table",
            { class: "numbers" },
            h("thead", {}, h("tr", {}, ...heads)),
            this.body,
        );
        this.table = h(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": "epochs" },
            table,
        );
        this.element = h(
            "div",
            { class: "view" },
            panel("Epochs over time", [legend(), this.scatter.element, this.summary], this.older),
            this.detail.element,
            panel("The newest", this.table),
        );
    }

    show([number]) {
        this.selected = number === undefined ? null : Number(number);
        this.detail.show(this.selected);
    }

    update(model) {
        const epochs = model.sortedEpochs();
        this.scatter.update(epochs, this.selected);
        setText(this.summary, summary(epochs));
        this.older.hidden = model.hasOldest || !epochs.length;
        const newest = epochs.slice(-SHOWN).reverse();
        redraw(this.body, [newest, this.selected], () => newest.map((each) => this.#row(each)));
        this.detail.update(model);
    }

    #row(each) {
        const open = h(
            "a",
            {
                href: `#/epochs/${each.epoch}`,
                "aria-current": this.selected === each.epoch ? "true" : null,
            },
            count(each.epoch),
        );
        const how = [
            h("span", { class: `status status-${each.status}` }, each.status),
            each.is_kept ? h("span", { class: "chip" }, "kept") : null,
            each.is_unaligned ? h("span", { class: "chip" }, "unaligned") : null,
            each.cause ? h("span", { class: "cause" }, each.cause) : null,
        ];
        return h(
            "tr",
            { "data-status": each.status },
            h("td", {}, open),
            h("td", {}, h("time", { datetime: iso(each.begun_at) }, moment(each.begun_at))),
            h("td", {}, duration(each.duration_s)),
            h("td", {}, bytes(each.size_bytes)),
            h("td", {}, count(each.in_flight_rows)),
            h("td", { class: "text why" }, ...how),
        );
    }

    async #loadOlder() {
        const first = this.app.model.sortedEpochs()[0]?.epoch;
        const older = await this.app.ask(() =>
            this.app.api.get(`epochs?limit=${PAGE}&before=${first}`),
        );
        if (!older) return;
        this.app.model.takePage(older, PAGE);
        this.app.refresh();
    }
}

export function legend() {
    const each = (kind, text) => h("span", { class: `key key-${kind}` }, text);
    return h(
        "p",
        { class: "legend" },
        each("complete", "complete"),
        each("kept", "kept, can be restored"),
        each("subsumed", "overtaken"),
        each("failed", "failed"),
        each("pending", "under way"),
    );
}

function summary(epochs) {
    const done = epochs.filter((each) => each.status === "complete" && each.duration_s !== null);
    if (!done.length) return "";
    const times = done.map((each) => each.duration_s).sort((a, b) => a - b);
    const part = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
    const failed = epochs.filter((each) => each.status === "failed").length;
    const ended = epochs.filter((each) => each.status !== "pending").length;
    const size = done.reduce((sum, each) => sum + (each.size_bytes ?? 0), 0) / done.length;
    return `Of ${many(ended, "epoch")}: half took up to ${duration(part(0.5))}, nineteen of twenty up to ${duration(part(0.95))}, the longest ${duration(times.at(-1))}; ${bytes(size)} on average; ${failed ? `${count(failed)} failed (${percent(failed / ended)})` : "none failed"}.`;
}
