// The main figures, each with what it needs to be judged by.

import { h, s, setAttribute, setText } from "./dom.js";
import { bytes, count, duration, elapsed, moment, rate } from "./format.js";

const SPARK = { width: 132, height: 26 };

/** [field, title, value, beside] of the model. */
const FIGURES = [
    [
        "rows_in_per_s",
        "Rows in /s",
        ({ job }) => rate(job.rows_in_per_s),
        ({ job }) =>
            job.rows_in === null ? "not known offline" : `${count(job.rows_in)} in this attempt`,
    ],
    [
        "rows_out_per_s",
        "Rows out /s",
        ({ job }) => rate(job.rows_out_per_s),
        ({ job }) => (job.is_live ? "into sinks" : "not known offline"),
    ],
    ["epoch", "Last epoch", ({ job }) => count(job.epoch), (model) => epochAge(model)],
    [
        "duration",
        "It took",
        (model) => duration(lastEpoch(model)?.duration_s),
        (model) =>
            lastEpoch(model)?.size_bytes === undefined
                ? ""
                : `${bytes(lastEpoch(model).size_bytes)} written`,
    ],
    [
        "parallelism",
        "Parallelism",
        ({ job }) => count(job.parallelism),
        ({ job }) => {
            if (job.asked_parallelism !== null && job.asked_parallelism > job.parallelism) {
                return `of ${count(job.asked_parallelism)} asked for: too few slots`;
            }
            return job.max_parallelism === null ? "" : `of ${count(job.max_parallelism)} at most`;
        },
    ],
    [
        "attempt",
        "Attempt",
        ({ job }) => count(job.attempt),
        ({ job }) => (job.started_at === null ? "" : `started ${moment(job.started_at)}`),
    ],
    [
        "leader",
        "Leader",
        ({ job }) => leader(job),
        ({ job }) =>
            !job.is_live
                ? "no job runs here"
                : !isElected(job)
                  ? "without an election"
                  : `this process: ${job.role}`,
    ],
];

function isElected(job) {
    return job.leader !== "" && job.leader !== "-";
}

/** Without an election there is one process, and its name says nothing. */
function leader(job) {
    if (isElected(job)) return job.leader;
    return job.is_live && job.role === "leader" ? "this process" : "–";
}

function lastEpoch(model) {
    return model
        .sortedEpochs()
        .filter((each) => each.status === "complete")
        .at(-1);
}

function epochAge({ job, now, isOver }) {
    if (job.last_epoch_at === null)
        return job.epoch === null ? "none is complete yet" : "time not known";
    if (isOver || !job.is_live) return moment(job.last_epoch_at);
    const every = job.epoch_every_s === null ? "" : `, every ${duration(job.epoch_every_s)}`;
    return `${elapsed(now - job.last_epoch_at)} ago${every}`;
}

export class Figures {
    constructor() {
        this.parts = FIGURES.map(([field, title, value, beside]) => {
            const [shown, note] = [
                h("dd", { class: "value", "data-field": field }),
                h("dd", { class: "note" }),
            ];
            const spark = field.startsWith("rows_")
                ? new Spark(field === "rows_in_per_s" ? 1 : 2)
                : null;
            const tile = h(
                "div",
                { class: `tile tile-${field}` },
                h("dt", {}, title),
                shown,
                note,
                spark?.element,
            );
            return { tile, shown, note, value, beside, spark };
        });
        this.element = h("dl", { class: "figures-row" }, ...this.parts.map(({ tile }) => tile));
    }

    update(model) {
        for (const { shown, note, value, beside, spark } of this.parts) {
            const text = value(model);
            setText(shown, text);
            setAttribute(shown, "title", text.length > 14 ? text : null);
            setText(note, beside(model));
            spark?.update(model.rates, model.job.is_live);
        }
    }
}

/** The last minutes as a line. */
class Spark {
    constructor(column) {
        this.column = column;
        this.area = s("path", { class: "area" });
        this.line = s("path", { class: "line" });
        this.element = s(
            "svg",
            {
                class: "spark",
                viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
                preserveAspectRatio: "none",
                "aria-hidden": "true",
            },
            this.area,
            this.line,
        );
    }

    update(rates, isLive) {
        setAttribute(this.element, "class", isLive && rates.length > 1 ? "spark" : "spark empty");
        if (rates.length < 2) return;
        const most = Math.max(1e-9, ...rates.map((each) => each[this.column]));
        const [first, last] = [rates[0][0], rates.at(-1)[0]];
        const x = (at) => (((at - first) / Math.max(1, last - first)) * SPARK.width).toFixed(1);
        const y = (value) => (SPARK.height - 1 - (value / most) * (SPARK.height - 3)).toFixed(1);
        const points = rates.map((each) => `${x(each[0])} ${y(each[this.column])}`).join("L");
        setAttribute(this.line, "d", `M${points}`);
        setAttribute(this.area, "d", `M0 ${SPARK.height}L${points}L${x(last)} ${SPARK.height}z`);
    }
}
