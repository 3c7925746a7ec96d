// First, in words: is it well, since when, what limits it, and what to do.

import { h, redraw, setAttribute, setText, sign } from "./dom.js";
import { elapsed, iso, moment } from "./format.js";

export function signOf(job) {
    if (job.status === "failed") return "bad";
    if (!job.verdict.is_well) return "warn";
    return ["starting", "launching", "standby"].includes(job.status) ? "wait" : "good";
}

export class Verdict {
    constructor() {
        this.mark = h("div", { class: "mark" });
        this.headline = h("h1", { id: "headline" });
        this.since = h("p", { class: "since" });
        this.because = h("ul", { class: "because" });
        this.remedy = h("p", { class: "remedy" });
        this.more = h(
            "p",
            { class: "more", hidden: true },
            h("a", { href: "#/history" }, "The failures, with tracebacks"),
        );
        this.problems = h("div", { class: "problems" });
        const words = h(
            "div",
            { class: "words" },
            this.headline,
            this.since,
            this.because,
            this.remedy,
            this.more,
            this.problems,
        );
        this.element = h(
            "section",
            { class: "verdict panel", "aria-labelledby": "headline" },
            this.mark,
            words,
        );
    }

    update(model) {
        const { job } = model;
        const kind = signOf(job);
        setAttribute(this.element, "data-kind", kind);
        redraw(this.mark, kind, () => sign(kind));
        setText(this.headline, job.verdict.headline);
        redraw(this.since, [job.status, job.status_since_at, job.is_live], () => this.#since(job));
        const ago = this.since.querySelector(".ago");
        if (ago) setText(ago, elapsed(model.now - job.status_since_at));
        redraw(this.because, job.verdict.because, () =>
            job.verdict.because.map((each) => h("li", {}, each)),
        );
        redraw(this.remedy, job.verdict.remedy, () =>
            job.verdict.remedy ? [h("b", {}, "What to do: "), job.verdict.remedy] : [],
        );
        this.more.hidden = !["failed", "restarting"].includes(job.status);
        this.#showProblems(job);
    }

    #since(job) {
        const word = h("b", {}, job.status);
        if (job.status_since_at === null) return [word];
        const at = h("time", { datetime: iso(job.status_since_at) }, moment(job.status_since_at));
        return [word, " since ", at, " (", h("span", { class: "ago" }), ")"];
    }

    /** Those that the verdict has not said already. */
    #showProblems(job) {
        const said = [job.verdict.headline, ...job.verdict.because].join(" ");
        const others = job.problems.filter(({ text }) => !said.includes(text.replace(/\.$/, "")));
        redraw(
            this.problems,
            others.map(({ text }) => text),
            () =>
                others.length
                    ? [
                          h("h2", {}, "Further problems"),
                          h("ul", {}, ...others.map(({ text }) => h("li", {}, text))),
                      ]
                    : [],
        );
    }
}
