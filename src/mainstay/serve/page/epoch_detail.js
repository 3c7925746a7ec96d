// One epoch: the phases of every subtask as bars, the slowest first.

import { h, nothing, panel, redraw, s, setText } from "./dom.js";
import { bytes, count, duration, many } from "./format.js";
import { words } from "./scatter.js";

const PHASES = [
    ["start_delay_s", "start", "until its marker came"],
    ["alignment_s", "alignment", "waiting for other markers"],
    ["sync_s", "sync", "copying its state"],
    ["async_s", "async", "writing it"],
];
const FEW = 24;

export class EpochDetail {
    constructor(app) {
        this.app = app;
        this.title = h("span", {});
        this.body = h("div", { class: "phases" });
        const close = h(
            "button",
            { class: "quiet", type: "button", on: { click: () => app.go("epochs") } },
            "Close",
        );
        this.element = panel(this.title, this.body, close);
        this.element.id = "epoch-detail";
        this.element.hidden = true;
    }

    show(number) {
        if (number !== this.number) this.isWhole = false;
        this.number = number;
        this.found = null;
        this.element.hidden = number === null;
        if (number === null) return;
        setText(this.title, `Epoch ${count(number)}`);
        this.#load();
    }

    /** One that is under way changes; one that has ended does not. */
    update(model) {
        if (this.number === null || this.number === undefined || !this.found) return;
        const known = model
            .sortedEpochs()
            .filter((each) => each.epoch === this.number)
            .at(-1);
        if (this.found.status === "pending" || (known && known.status !== this.found.status))
            this.#load();
    }

    async #load() {
        if (this.isLoading) return;
        this.isLoading = true;
        const number = this.number;
        try {
            this.found = await this.app.api.get(`epochs/${number}`);
            if (number === this.number) this.#draw(this.found);
        } catch (error) {
            if (number === this.number)
                redraw(this.body, error.message, () => nothing(error.message));
        } finally {
            this.isLoading = false;
        }
        if (number !== this.number && this.number !== null) this.#load();
    }

    #draw(epoch) {
        redraw(this.body, [epoch, this.isWhole], () => [
            h("p", {}, `${words(epoch)}${epoch.cause.endsWith(".") ? "" : "."}`),
            epoch.waiting_for.length ? this.#waiting(epoch) : null,
            epoch.subtasks.length
                ? this.#bars(epoch)
                : nothing(
                      epoch.status === "pending"
                          ? "No subtask has handed in its part yet."
                          : "What its subtasks measured is not known.",
                  ),
        ]);
    }

    #waiting({ waiting_for: waiting }) {
        const shown = waiting.slice(0, 12).join("; ");
        return h(
            "p",
            { class: "waiting" },
            h("b", {}, `It waits for ${many(waiting.length, "subtask")}: `),
            shown,
            waiting.length > 12 ? "; …" : "",
        );
    }

    #bars(epoch) {
        const total = (each) => PHASES.reduce((sum, [field]) => sum + (each[field] ?? 0), 0);
        const sorted = [...epoch.subtasks].sort((a, b) => total(b) - total(a));
        const shown = this.isWhole ? sorted : sorted.slice(0, FEW);
        const most = Math.max(1e-9, total(sorted[0]));
        const phases = PHASES.filter(([field]) =>
            sorted.some((each) => each[field] !== null && each[field] !== undefined),
        );
        const rows = shown.map((each) =>
            h(
                "tr",
                {},
                h("td", { class: "text" }, `${each.task}, ${each.subtask}`),
                h("td", { class: "bar" }, bar(each, phases, most)),
                h("td", {}, duration(total(each))),
                h("td", {}, bytes(each.size_bytes)),
                h("td", {}, count(each.in_flight_rows)),
            ),
        );
        const heads = [
            ["Task, subtask", "text"],
            ["Phases", "text"],
            ["Together"],
            ["Written"],
            ["In flight"],
        ].map(([text, kind]) => h("th", { scope: "col", class: kind ?? null }, text));
        const table = h(
            "table",
            { class: "numbers" },
            h("thead", {}, h("tr", {}, ...heads)),
            h("tbody", {}, ...rows),
        );
        const more =
            sorted.length > shown.length
                ? h(
                      "button",
                      {
                          class: "quiet",
                          type: "button",
                          on: {
                              click: () => {
                                  this.isWhole = true;
                                  this.#draw(epoch);
                              },
                          },
                      },
                      `Show all ${count(sorted.length)}; the others took at most ${duration(total(sorted[FEW]))}`,
                  )
                : null;
        const key = h(
            "p",
            { class: "legend" },
            ...phases.map(([, name, text]) =>
                h("span", { class: `key key-${name}` }, `${name}: ${text}`),
            ),
        );
        return h(
            "div",
            {},
            key,
            h(
                "div",
                {
                    class: "scroll",
                    tabindex: "0",
                    role: "region",
                    "aria-label": "phases of subtasks",
                },
                table,
            ),
            more,
        );
    }
}

function bar(each, phases, most) {
    let x = 0;
    const parts = phases.map(([field, name]) => {
        const width = ((each[field] ?? 0) / most) * 100;
        const part = s("rect", { class: `phase-${name}`, x, width, height: 10 });
        x += width;
        return part;
    });
    const text = phases.map(([field, name]) => `${name} ${duration(each[field])}`).join(", ");
    return s(
        "svg",
        {
            class: "phase-bar",
            viewBox: "0 0 100 10",
            preserveAspectRatio: "none",
            role: "img",
            "aria-label": text,
        },
        s("title", {}, text),
        ...parts,
    );
}
