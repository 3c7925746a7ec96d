// What a question about state is answered with: rows, changes, or why there is no answer.

import { h, nothing, panel, setText } from "./dom.js";
import { count, duration, elapsed, many, moment } from "./format.js";

const SIGNS = { added: "+", removed: "−", changed: "~", same: "=" };

export class Answer {
    constructor() {
        this.title = h("span", {}, "Rows");
        this.body = h("div", { "aria-live": "polite" });
        this.element = panel(this.title, this.body);
        this.element.id = "answer";
        this.element.hidden = true;
        this.isShown = false;
    }

    #show(title, ...children) {
        this.isShown = true;
        this.element.hidden = false;
        setText(this.title, title);
        this.body.replaceChildren(...children.filter(Boolean));
    }

    wait(name) {
        this.#show(name, nothing("Reading …"));
    }

    refuse(text) {
        this.#show("No answer", h("p", { class: "refusal", role: "alert" }, text));
    }

    rows(state, { rows, is_cut: isCut, moment: of }) {
        const cut = isCut
            ? ` There are more than ${count(rows.length)}; name keys, or ask for more.`
            : "";
        const note = h(
            "p",
            { class: "summary" },
            `${many(rows.length, "row")}, ${told(of)}; read in ${duration(of.took_s)}.${cut}`,
        );
        this.#show(
            state.name,
            note,
            rows.length ? table(rows, state) : nothing("Nothing is stored there."),
        );
    }

    changes(changes, before, after, isSampled) {
        const many_ = (how) => changes.filter((each) => each.how === how).length;
        const told_ = ["changed", "added", "removed"]
            .map((how) => `${count(many_(how))} ${how}`)
            .join(", ");
        const sample = isSampled
            ? " Only the keys that were read are compared; name keys, or ask for more rows."
            : "";
        const note = h(
            "p",
            { class: "summary" },
            `From ${name(before)} to ${name(after)}: ${told_}, ${count(many_("same"))} the same.${sample}`,
        );
        const shown = changes.filter((each) => each.how !== "same");
        this.#show(
            "Difference",
            note,
            shown.length ? changeTable(shown) : nothing("Nothing has changed."),
        );
    }
}

function name(of) {
    return of.level === "live" ? `now (${moment(of.at)})` : `epoch ${of.epoch}`;
}

function told(of) {
    if (of.level === "live") return `live at ${moment(of.at)}, attempt ${of.attempt}`;
    return `of epoch ${of.epoch}, ${elapsed(of.age_s)} old`;
}

function value(each) {
    if (each === null || each === undefined)
        return h("span", { class: "none" }, each === null ? "null" : "–");
    return typeof each === "object" ? h("code", {}, JSON.stringify(each)) : String(each);
}

function kind(each) {
    return typeof each === "number" ? null : "text";
}

function table(rows, state) {
    const names = Object.keys(rows[0]);
    const head = names.map((each) =>
        h(
            "th",
            { scope: "col", class: kind(rows[0][each]) },
            each,
            state.key_names.includes(each) ? h("small", {}, " key") : null,
        ),
    );
    const body = rows.map((row) =>
        h("tr", {}, ...names.map((each) => h("td", { class: kind(row[each]) }, value(row[each])))),
    );
    return scrolled(
        h(
            "table",
            { class: "numbers" },
            h("thead", {}, h("tr", {}, ...head)),
            h("tbody", {}, ...body),
        ),
        "rows",
    );
}

function changeTable(changes) {
    const names = Object.keys(changes[0].key);
    const head = ["", ...names, "before", "after"].map((each) =>
        h("th", { scope: "col", class: "text" }, each),
    );
    const body = changes.map((each) =>
        h(
            "tr",
            { "data-how": each.how },
            h("td", { class: "text how" }, `${SIGNS[each.how]} ${each.how}`),
            ...names.map((name) => h("td", { class: "text" }, value(each.key[name]))),
            h("td", { class: "text" }, value(each.before)),
            h("td", { class: "text" }, value(each.after)),
        ),
    );
    return scrolled(
        h(
            "table",
            { class: "numbers" },
            h("thead", {}, h("tr", {}, ...head)),
            h("tbody", {}, ...body),
        ),
        "changes",
    );
}

function scrolled(content, label) {
    return h(
        "div",
        { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label },
        content,
    );
}
