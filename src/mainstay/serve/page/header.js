// The head of the page: which job, how it is, where to go, and what can be done.

import { Actions } from "./actions.js";
import { h, redraw, s, setAttribute, setText, sign } from "./dom.js";
import { themeSwitch } from "./theme.js";
import { signOf } from "./verdict.js";

const VIEWS = [
    ["overview", "Overview"],
    ["epochs", "Epochs"],
    ["keys", "Key-groups"],
    ["history", "History"],
    ["state", "State"],
];

export class Header {
    constructor(app) {
        this.name = h("span", { class: "job" }, "…");
        this.status = h("span", { class: "pill" });
        this.live = h("span", { class: "live" });
        this.links = new Map(
            VIEWS.map(([name, text]) => [name, h("a", { href: `#/${name}` }, text)]),
        );
        this.actions = new Actions(app);
        const mark = s(
            "svg",
            { class: "brand", viewBox: "0 0 20 20", role: "img", "aria-label": "Mainstay" },
            s("path", { d: "M9 2.5v14M3.5 17h13M9 3.5L3 15M9 3.5l7.5 11.5H9" }),
        );
        this.element = h(
            "header",
            { class: "top" },
            h("div", { class: "title" }, mark, this.name, this.status, this.live),
            h("nav", { "aria-label": "Views" }, ...this.links.values()),
            h("div", { class: "tools" }, this.actions.element, themeSwitch()),
        );
    }

    update(model, view) {
        for (const [name, link] of this.links)
            setAttribute(link, "aria-current", name === view ? "page" : null);
        this.actions.update(model);
        setText(
            this.live,
            { open: "", gone: "no connection", troubled: "no answer", waiting: "connecting …" }[
                model.link.state
            ],
        );
        if (!model.job) return;
        const { job } = model;
        const kind = model.isGone ? "bad" : signOf(job);
        setText(this.name, job.name);
        setAttribute(
            this.name,
            "title",
            `${job.name}, Mainstay ${job.version}, ${job.snapshot_place}`,
        );
        setAttribute(this.status, "data-kind", kind);
        const text = model.isGone ? "not answering" : job.status;
        redraw(this.status, [kind, text], () => [sign(kind), text]);
        document.title = `${{ good: "●", wait: "○", warn: "▲", bad: "✕" }[kind]} ${job.name}: ${text}`;
    }
}
