// The subtasks of one task as a table that sorts, with hot keys and what each operator has done.

import { h, setText, setAttribute, panel, redraw, s } from "./dom.js";
import { count, duration, elapsed, moment, percent, rate } from "./format.js";
import { isHeld } from "./strip.js";

const COLUMNS = [
    ["subtask", "Subtask", (each) => each.subtask, count],
    ["rows", "Rows", (each) => each.rows, count],
    ["rows_per_s", "Rows/s", (each) => each.rows_per_s, rate],
    ["emitted_per_s", "Out/s", (each) => each.emitted_per_s, rate],
    ["busy", "Busy", (each) => each.busy, percent],
    ["backpressured", "Held back", (each) => each.backpressured, percent],
    ["idle", "Idle", (each) => each.idle, percent],
    ["waiting_rows", "In line", (each) => each.waiting_rows, count],
    ["row_s", "A row", (each) => each.row_s, (value) => (value ? duration(value) : "–")],
    ["watermark_at", "Watermark", (each) => each.watermark_at, moment],
    ["skipped", "Skipped", (each) => each.skipped, count],
    [
        "report_age_s",
        "Reported",
        (each) => each.report_age_s,
        (value) => (value === null || value === undefined ? "–" : `${elapsed(value)} ago`),
    ],
    ["hits", "Cache hits", (each) => each.state_reads?.hit_ratio ?? null, percent],
];
/** Columns that are left out where no subtask has anything there. */
const RARE = new Set(["watermark_at", "skipped", "hits"]);

export class Subtasks {
    constructor(closed) {
        this.sort = { name: "subtask", isDown: false };
        this.title = h("span", {});
        this.body = h("tbody", {});
        this.head = h("tr", {});
        this.keys = h("div", { class: "hot" });
        const close = h(
            "button",
            { class: "quiet", type: "button", on: { click: closed } },
            "Close",
        );
        const table = h("table", { class: "numbers" }, h("thead", {}, this.head), this.body);
        this.element = panel(
            this.title,
            [
                h(
                    "div",
                    { class: "scroll", tabindex: "0", role: "region", "aria-label": "subtasks" },
                    table,
                ),
                this.keys,
            ],
            close,
        );
        this.element.id = "subtasks";
        this.element.hidden = true;
        this.rows = new Map();
    }

    show(task) {
        this.element.hidden = !task;
        if (!task) return;
        setText(this.title, `Subtasks of ${task.operators.join(" → ")}`);
        const columns = COLUMNS.filter(
            ([name, , value]) => !RARE.has(name) || task.subtasks.some((each) => value(each)),
        );
        redraw(this.head, [columns.map(([name]) => name), this.sort], () =>
            columns.map((each) => this.#heading(each)),
        );
        this.#fill(columns, this.#sorted(task.subtasks));
        this.#showKeys(task);
        this.task = task;
    }

    #heading([name, title]) {
        const isSorted = this.sort.name === name;
        const sort = () => {
            this.sort = { name, isDown: isSorted ? !this.sort.isDown : name !== "subtask" };
            this.show(this.task);
            this.head.querySelector(`[data-sort=${name}]`).focus();
        };
        const direction = isSorted ? (this.sort.isDown ? "descending" : "ascending") : null;
        return h(
            "th",
            { scope: "col", "aria-sort": direction },
            h("button", { type: "button", "data-sort": name, on: { click: sort } }, title),
        );
    }

    #sorted(subtasks) {
        const value = COLUMNS.find(([name]) => name === this.sort.name)[2];
        const turn = this.sort.isDown ? -1 : 1;
        return [...subtasks].sort(
            (a, b) => turn * ((value(a) ?? -1) - (value(b) ?? -1)) || a.subtask - b.subtask,
        );
    }

    #fill(columns, subtasks) {
        const shape = `${columns.map(([name]) => name)} ${subtasks.length}`;
        if (shape !== this.shape) {
            this.shape = shape;
            this.body.replaceChildren(
                ...subtasks.map(() =>
                    h("tr", {}, ...columns.map(([name]) => h("td", { "data-column": name }))),
                ),
            );
        }
        subtasks.forEach((each, index) => {
            const row = this.body.children[index];
            setAttribute(row, "data-subtask", each.subtask);
            setAttribute(row, "data-mute", isHeld(each) ? "true" : null);
            columns.forEach(([name, , value, format], place) =>
                this.#cell(row.children[place], name, value(each), format),
            );
        });
    }

    #cell(cell, name, value, format) {
        if (!["busy", "backpressured", "idle"].includes(name)) {
            setText(cell, format(value));
            return;
        }
        if (!cell.firstChild) {
            const meter = s(
                "svg",
                {
                    class: "meter",
                    viewBox: "0 0 100 6",
                    preserveAspectRatio: "none",
                    "aria-hidden": "true",
                },
                s("rect", { class: "idle", width: 100, height: 6 }),
                s("rect", { class: name, height: 6 }),
            );
            cell.append(h("span", {}), meter);
        }
        setText(cell.firstChild, format(value));
        setAttribute(cell.lastChild.lastChild, "width", Math.round(value * 100));
    }

    /** The keys with most rows, where the job samples them. */
    #showKeys(task) {
        const found = hotKeys(task).slice(0, 8);
        redraw(this.keys, found, () => (found.length ? [hotTable(found)] : []));
    }
}

export function hotKeys(task) {
    const found = task.subtasks.flatMap((each) =>
        (each.operators ?? []).flatMap(({ uid, hot_keys: keys = [] }) =>
            keys.map(({ key, share }) => ({ uid, subtask: each.subtask, key, share })),
        ),
    );
    return found.sort((a, b) => b.share - a.share);
}

export function hotTable(found) {
    const row = ({ uid, subtask, key, share }) =>
        h(
            "tr",
            {},
            h("td", { class: "text" }, h("code", {}, key)),
            h("td", {}, percent(share)),
            h("td", { class: "text" }, uid),
            h("td", {}, count(subtask)),
        );
    const heads = [
        h("th", { scope: "col", class: "text" }, "Hot key"),
        h("th", { scope: "col" }, "Of its subtask's rows"),
        h("th", { scope: "col", class: "text" }, "Operator"),
        h("th", { scope: "col" }, "Subtask"),
    ];
    return h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "hot keys" },
        h(
            "table",
            { class: "numbers hot-keys" },
            h("thead", {}, h("tr", {}, ...heads)),
            h("tbody", {}, ...found.map(row)),
        ),
    );
}
