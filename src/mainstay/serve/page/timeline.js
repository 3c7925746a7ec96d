// What has happened: attempts over time, a list of events, failures with the author's traceback.

import { h, nothing, panel, redraw, s } from "./dom.js";
import { failures } from "./failures.js";
import { count, duration, elapsed, iso, moment } from "./format.js";

const EVERY_S = 10;
const SIGNS = { attempt: "▶", leader: "♜", rescale: "⇄", savepoint: "▣", failure: "✕", end: "■" };
const LANE = 26;

export class Timeline {
    constructor(app) {
        this.app = app;
        this.lanes = h("div", { class: "lanes" });
        this.list = h("ol", { class: "events" });
        this.failures = h("div", { class: "stack" });
        this.recoveries = h("div", {});
        this.recoveryPanel = panel("How attempts took over", this.recoveries);
        this.element = h(
            "div",
            { class: "view" },
            panel("Attempts", this.lanes),
            panel("Failures", this.failures),
            this.recoveryPanel,
            panel("Everything, the newest first", this.list),
        );
    }

    show() {
        this.course = null;
    }

    /** Asked for when the course of the job has changed, and now and then: savepoints change nothing. */
    update(model) {
        const isOld = model.now - (this.askedAt ?? 0) > EVERY_S && !model.isGone;
        if (model.course !== this.course || isOld) this.#load(model);
    }

    async #load(model) {
        if (this.isLoading) return;
        this.isLoading = true;
        const course = model.course;
        this.askedAt = model.now;
        try {
            const names = ["timeline", "attempts", "failures", "recoveries"];
            const [entries, attempts, failed, recoveries] = await Promise.all(
                names.map((each) => this.app.api.get(each)),
            );
            this.#draw(model, entries, attempts, failed, recoveries);
            this.course = course;
        } catch (error) {
            if (!this.course) redraw(this.list, error.message, () => nothing(error.message));
        } finally {
            this.isLoading = false;
        }
    }

    #draw(model, entries, attempts, failed, recoveries) {
        redraw(this.lanes, [entries, attempts, Math.floor(model.now / 10)], () =>
            lanes(entries, attempts, model),
        );
        redraw(this.list, entries, () =>
            entries.length
                ? [...entries].reverse().map(entry)
                : nothing("Nothing has happened yet."),
        );
        redraw(this.failures, failed, () => failures(failed));
        this.recoveryPanel.hidden = !recoveries.length;
        redraw(this.recoveries, recoveries, () =>
            recoveries.length ? recoveryTable(recoveries) : [],
        );
    }
}

function entry({ at, kind, text }) {
    const when =
        at === null
            ? h("span", { class: "when" }, "–")
            : h("time", { class: "when", datetime: iso(at), title: iso(at) }, moment(at));
    return h(
        "li",
        { class: `event event-${kind}` },
        when,
        h("span", { class: "glyph", "aria-hidden": "true" }, SIGNS[kind] ?? "·"),
        h("span", { class: "kind" }, kind),
        h("span", { class: "what" }, text),
    );
}

/** Attempts as bars, one below the other, with what happened in them. */
function lanes(entries, attempts, model) {
    const known = attempts.filter((each) => each.begun_at !== null).slice(-12);
    if (!known.length) return nothing("No attempt has begun yet.");
    const first = known[0].begun_at;
    const last = Math.max(
        model.isOver || !model.job.is_live
            ? (known.at(-1).ended_at ?? known.at(-1).begun_at)
            : model.now,
        first + 1,
    );
    const x = (at) => ((at - first) / (last - first)) * 100;
    const rows = known.map((each, index) =>
        lane(each, known[index + 1], { x, last, entries, model }),
    );
    const scale = h(
        "div",
        { class: "lane scale" },
        h("span", {}),
        h(
            "span",
            { class: "ends" },
            h("span", {}, moment(first)),
            h("span", {}, model.isOver || !model.job.is_live ? moment(last) : "now"),
        ),
        h("span", {}),
    );
    return [...rows, scale];
}

function lane(attempt, next, { x, last, entries, model }) {
    const end = attempt.ended_at ?? next?.begun_at ?? last;
    const isOpen = attempt.ended_at === null && !next && !model.isOver && model.job.is_live;
    const isFailed = entries.some(
        (each) => each.kind === "failure" && each.text.startsWith(`attempt ${attempt.attempt} `),
    );
    const bar = s("rect", {
        class: `attempt ${isOpen ? "open" : isFailed ? "failed" : "ended"}`,
        x: x(attempt.begun_at),
        width: Math.max(0.6, x(end) - x(attempt.begun_at)),
        y: 4,
        height: LANE - 8,
    });
    const inside = entries.filter(
        (each) =>
            each.at !== null &&
            each.kind !== "attempt" &&
            each.at >= attempt.begun_at &&
            each.at <= end + 0.001 &&
            (!next || each.at < next.begun_at || each.kind === "failure"),
    );
    const marks = inside.map((each) =>
        h(
            "span",
            { class: `at at-${each.kind}`, title: `${moment(each.at)} ${each.kind}: ${each.text}` },
            SIGNS[each.kind] ?? "·",
        ),
    );
    inside.forEach((each, index) => {
        marks[index].style.left = `${Math.min(99, Math.max(0.5, x(each.at)))}%`;
    });
    const chart = h(
        "span",
        { class: "track" },
        s(
            "svg",
            { viewBox: `0 0 100 ${LANE}`, preserveAspectRatio: "none", "aria-hidden": "true" },
            bar,
        ),
        ...marks,
    );
    const about = `${elapsed(end - attempt.begun_at)}${attempt.epochs === null ? "" : `, ${count(attempt.epochs)} epochs`}`;
    const name = h(
        "span",
        { class: "name" },
        h("b", {}, `Attempt ${attempt.attempt}`),
        h("small", {}, `from ${attempt.origin}`),
    );
    return h(
        "div",
        { class: "lane", title: attempt.reason || null },
        name,
        chart,
        h("span", { class: "about" }, about),
    );
}

function recoveryTable(recoveries) {
    const heads = ["Attempt", "Why", "Failed", "Runs again", "Waited", "Launched", "Restored"].map(
        (each, index) => h("th", { scope: "col", class: index === 1 ? "text" : null }, each),
    );
    const row = (each) =>
        h(
            "tr",
            {},
            h("td", {}, count(each.attempt)),
            h(
                "td",
                { class: "text why" },
                `${each.kind}${each.reason ? `: ${each.reason.split("\n")[0]}` : ""}`,
            ),
            h("td", {}, moment(each.failed_at)),
            h("td", {}, moment(each.running_at)),
            h("td", {}, duration(each.wait_s)),
            h("td", {}, duration(each.relaunch_s)),
            h("td", {}, duration(each.restore_s)),
        );
    return h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "recoveries" },
        h(
            "table",
            { class: "numbers" },
            h("thead", {}, h("tr", {}, ...heads)),
            h("tbody", {}, ...[...recoveries].reverse().map(row)),
        ),
    );
}
