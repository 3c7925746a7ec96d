// Failures: where, why, what was done about it, and the author's own traceback.

import { h, nothing, sign } from "./dom.js";
import { iso, moment } from "./format.js";

const SHOWN = 20;

/** The newest first; the last one is open. */
export function failures(failed) {
    if (!failed.length) return nothing("No attempt has failed.");
    const shown = [...failed].reverse().slice(0, SHOWN).map(failure);
    const left = failed.length - shown.length;
    return left > 0 ? [...shown, nothing(`And ${left} earlier.`)] : shown;
}

function failure(each, index) {
    const subject = each.attempt === null ? "The start" : `Attempt ${each.attempt}`;
    const where = each.where ? ` in ${each.where}` : "";
    const summary = h(
        "summary",
        {},
        sign(each.outcome === "restarted" ? "warn" : "bad"),
        h("span", { class: "cause" }, each.cause.split("\n")[0]),
        h(
            "small",
            {},
            h("time", { datetime: iso(each.at) }, moment(each.at)),
            ` · ${subject} failed${where} · ${each.done || each.outcome}`,
        ),
    );
    return h("details", { class: "failure", open: index === 0 }, summary, ...traceback(each));
}

function traceback(each) {
    if (!each.traceback)
        return [nothing("There is no traceback: no code of the author has raised it.")];
    const text = h(
        "pre",
        { tabindex: "0", role: "region", "aria-label": "traceback" },
        each.traceback,
    );
    const copy = h(
        "button",
        {
            class: "quiet",
            type: "button",
            on: {
                click: async () => {
                    await navigator.clipboard?.writeText(each.traceback);
                    copy.textContent = "Copied";
                },
            },
        },
        "Copy the traceback",
    );
    return [text, copy];
}
