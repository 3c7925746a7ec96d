// Epochs as a scatter: when each began, and how long it took. Each way of ending has its own shape.

import { h, s, redraw, setAttribute, setText } from "./dom.js";
import { duration, moment } from "./format.js";

const MARGIN = { left: 54, right: 14, top: 12, bottom: 24 };
/** Beyond this ratio of the longest to the median one, durations are drawn by their logarithm. */
const WIDE = 25;

export class Scatter {
    constructor(height, chosen) {
        this.height = height;
        this.chosen = chosen;
        this.epochs = [];
        this.focus = null;
        this.svg = s("svg", { class: "scatter", height });
        this.said = h("p", { class: "said", "aria-live": "polite" });
        this.frame = h(
            "div",
            {
                class: "chart",
                tabindex: "0",
                role: "application",
                "aria-label":
                    "Epochs over time. The arrow keys go from epoch to epoch, Enter shows one.",
                on: {
                    keydown: (event) => this.#key(event),
                    click: (event) => this.#click(event),
                    pointermove: (event) => this.#hover(event),
                    pointerleave: () => this.#say(this.focus),
                },
            },
            this.svg,
        );
        this.element = h("div", {}, this.frame, this.said);
        new ResizeObserver(() => this.#draw()).observe(this.frame);
    }

    update(epochs, selected) {
        this.epochs = epochs.filter((each) => each.begun_at !== null);
        this.selected = selected;
        this.#draw();
    }

    #draw() {
        const width = this.frame.clientWidth;
        if (!width) return;
        const shown = this.epochs.map((each) => [
            each.epoch,
            each.attempt,
            each.status,
            each.is_kept,
            each.status === "pending" ? each.duration_s : 0,
        ]);
        redraw(this.svg, [width, shown, this.selected, this.focus?.epoch ?? null], () =>
            this.#built(width),
        );
    }

    #built(width) {
        setAttribute(this.svg, "width", width);
        setAttribute(this.svg, "viewBox", `0 0 ${width} ${this.height}`);
        this.points = [];
        if (!this.epochs.length) {
            return [
                s(
                    "text",
                    { x: width / 2, y: this.height / 2, class: "empty" },
                    "No epoch is known yet.",
                ),
            ];
        }
        const [x, xTicks] = timeScale(this.epochs, MARGIN.left, width - MARGIN.right);
        const [y, yTicks, isLog] = durationScale(
            this.epochs,
            this.height - MARGIN.bottom,
            MARGIN.top,
        );
        this.points = this.epochs.map((each) => ({
            each,
            x: x(each.begun_at),
            y: y(each.duration_s),
        }));
        return [
            ...yTicks.map((tick) =>
                s(
                    "g",
                    { class: "tick" },
                    s("line", {
                        x1: MARGIN.left,
                        x2: width - MARGIN.right,
                        y1: y(tick),
                        y2: y(tick),
                    }),
                    s("text", { x: MARGIN.left - 8, y: y(tick) + 4, class: "end" }, duration(tick)),
                ),
            ),
            ...xTicks.map((tick) =>
                s("text", { x: x(tick), y: this.height - 6, class: "axis" }, moment(tick)),
            ),
            isLog
                ? s("text", { x: MARGIN.left + 4, y: MARGIN.top + 2, class: "hint" }, "logarithmic")
                : null,
            ...this.points.map((point) => this.#mark(point)),
        ].filter(Boolean);
    }

    #mark({ each, x, y }) {
        const isChosen = this.selected === each.epoch;
        const classes = [
            "dot",
            `dot-${each.status}`,
            each.is_kept && "kept",
            isChosen && "chosen",
            this.focus === each && "focus",
        ]
            .filter(Boolean)
            .join(" ");
        const shape =
            {
                failed: () => s("path", { d: `M${x - 4.5} ${y - 4.5}l9 9m0 -9l-9 9` }),
                subsumed: () => s("path", { d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` }),
            }[each.status] ?? (() => s("circle", { cx: x, cy: y, r: each.is_kept ? 4.5 : 3.5 }));
        const ring =
            isChosen || this.focus === each
                ? [s("circle", { cx: x, cy: y, r: 9, class: "ring" })]
                : [];
        return s("g", { class: classes, "data-epoch": each.epoch }, ...ring, shape());
    }

    #nearest(event) {
        const box = this.svg.getBoundingClientRect();
        const [x, y] = [event.clientX - box.left, event.clientY - box.top];
        const far = (point) => Math.hypot(point.x - x, (point.y - y) * 0.6);
        return (
            (this.points ?? []).reduce(
                (best, point) => (!best || far(point) < far(best) ? point : best),
                null,
            )?.each ?? null
        );
    }

    #hover(event) {
        this.#say(this.#nearest(event));
    }

    #click(event) {
        const found = this.#nearest(event);
        if (found) this.chosen(found.epoch);
    }

    #key(event) {
        const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
        if (event.key === "Enter" && this.focus) this.chosen(this.focus.epoch);
        if (step === undefined || !this.epochs.length) return;
        event.preventDefault();
        const at = this.focus
            ? this.epochs.findIndex((each) => each.epoch === this.focus.epoch)
            : this.epochs.length;
        this.focus = this.epochs[Math.min(Math.max(at + step, 0), this.epochs.length - 1)];
        this.#say(this.focus);
        this.#draw();
    }

    #say(each) {
        setText(this.said, each ? words(each) : "");
    }
}

/** One epoch in a line. */
export function words(each) {
    const how =
        {
            pending: "is under way",
            complete: "was complete",
            failed: "failed",
            subsumed: "was overtaken by a later one",
        }[each.status] ?? each.status;
    const why = each.cause ? `: ${each.cause}` : "";
    const kept = each.is_kept ? ", kept" : "";
    return `Epoch ${each.epoch} of ${moment(each.begun_at)} ${how} after ${duration(each.duration_s)}${kept}${why}`;
}

function timeScale(epochs, from, to) {
    const first = Math.min(...epochs.map((each) => each.begun_at));
    const last = Math.max(first + 1, ...epochs.map((each) => each.begun_at));
    const x = (at) => Math.round((from + ((at - first) / (last - first)) * (to - from)) * 10) / 10;
    const number = Math.max(1, Math.floor((to - from) / 130));
    const ticks = Array.from(
        { length: number },
        (_, index) => first + ((index + 0.5) / number) * (last - first),
    );
    return [x, ticks];
}

function durationScale(epochs, bottom, top) {
    const known = epochs.map((each) => Math.max(each.duration_s ?? 0, 1e-4)).sort((a, b) => a - b);
    const [most, least, median] = [known.at(-1), known[0], known[Math.floor(known.length / 2)]];
    if (most / median < WIDE) {
        const ticks = niceTicks(most);
        const end = ticks.at(-1);
        return [(value) => bottom - ((value ?? 0) / end) * (bottom - top), ticks, false];
    }
    const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
    const y = (value) =>
        bottom -
        ((Math.log10(Math.max(value ?? 0, 10 ** low)) - low) / Math.max(1, high - low)) *
            (bottom - top);
    return [y, Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)), true];
}

/** Up to five round numbers from 0 to beyond the largest. */
export function niceTicks(most, number = 4) {
    const rough = most / number || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10]
        .map((each) => each * power)
        .find((each) => each >= rough * 0.999);
    return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}
