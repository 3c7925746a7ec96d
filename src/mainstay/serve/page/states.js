// The state browser: any state, live, at the latest epoch or at any that is kept; and what changed.

import { Answer } from "./answers.js";
import { h, panel, redraw, setText } from "./dom.js";
import { difference, keysIn } from "./difference.js";
import { moment } from "./format.js";
import { hintOf, keysOf } from "./keys_input.js";

const LIVE = "live";
const LATEST = "latest";

export class States {
    constructor(app) {
        this.app = app;
        this.known = [];
        this.state = h("select", { id: "state", on: { change: () => this.#hint() } });
        this.at = h("select", { id: "at", on: { change: () => this.#loadStates() } });
        this.keys = h("textarea", {
            id: "keys",
            rows: "3",
            spellcheck: "false",
            "aria-describedby": "keys-hint",
        });
        this.limit = h("input", {
            id: "limit",
            type: "number",
            min: "1",
            max: "10000",
            value: "100",
        });
        this.other = h("select", { id: "other" });
        this.hint = h("p", { id: "keys-hint", class: "hint" });
        this.answer = new Answer();
        this.button = h("button", { class: "primary", type: "submit" }, "Show");
        this.element = h(
            "div",
            { class: "view" },
            panel("State", this.#form()),
            this.answer.element,
        );
    }

    #form() {
        const field = (id, text, input, more = null) =>
            h("div", { class: `field field-${id}` }, h("label", { for: id }, text), input, more);
        const submit = (event) => {
            event.preventDefault();
            this.#ask();
        };
        return h(
            "form",
            { class: "browser", on: { submit } },
            field("state", "State", this.state),
            field("at", "As of", this.at),
            field("other", "Compared with", this.other),
            field("limit", "Rows at most", this.limit),
            field("keys", "Keys", this.keys, this.hint),
            h("div", { class: "submit" }, this.button),
        );
    }

    show() {
        this.epoch = undefined;
    }

    /** Epochs that are kept change with every new one; the lists follow while nobody has them open. */
    update(model) {
        const isDue = model.job.epoch !== this.epoch && model.now - (this.askedAt ?? 0) > 3;
        const isInUse = [this.at, this.other, this.state].includes(document.activeElement);
        if (!isDue || isInUse || model.isGone) return;
        this.epoch = model.job.epoch;
        this.askedAt = model.now;
        this.#loadEpochs(model).then(() => this.#loadStates());
    }

    async #loadEpochs(model) {
        const epochs = (await this.app.ask(() => this.app.api.get("epochs?limit=1000"))) ?? [];
        const kept = epochs.filter((each) => each.is_kept).reverse();
        const option = ([value, text]) => h("option", { value }, text);
        const past = kept.map((each) => [
            String(each.epoch),
            `epoch ${each.epoch}, ${moment(each.begun_at)}`,
        ]);
        const live =
            model.job.is_live && model.job.status === "running"
                ? [[LIVE, "now (live; a failure may roll it back)"]]
                : [];
        this.#fill(this.at, [[LATEST, "the latest complete epoch"], ...live, ...past].map(option));
        this.#fill(this.other, [["", "nothing"], ...past, ...live].map(option));
    }

    async #loadStates() {
        const at = this.at.value;
        const path = at === LIVE || at === LATEST || !at ? "states" : `states?epoch=${at}`;
        try {
            const keyed = (each) => (each.key_names.length ? 0 : 1);
            this.known = (await this.app.api.get(path)).sort((a, b) => keyed(a) - keyed(b));
        } catch (error) {
            this.known = [];
            if (!this.answer.isShown) this.answer.refuse(error.message);
        }
        this.#fill(
            this.state,
            this.known.map((each) =>
                h(
                    "option",
                    { value: each.name },
                    `${each.name} — ${each.kind} of ${each.value_type}`,
                ),
            ),
        );
        this.button.disabled = !this.known.length;
        this.#hint();
    }

    /** The choice stays where it can. */
    #fill(select, options) {
        const chosen = select.value;
        redraw(
            select,
            options.map((each) => [each.value, each.textContent]),
            () => options,
        );
        if (options.some((each) => each.value === chosen)) select.value = chosen;
    }

    #chosen() {
        return this.known.find((each) => each.name === this.state.value);
    }

    #hint() {
        setText(
            this.hint,
            this.known.length
                ? hintOf(this.#chosen())
                : "There is no state to show yet: it comes with the first complete epoch.",
        );
    }

    async #ask() {
        const state = this.#chosen();
        if (!state) return;
        this.button.disabled = true;
        this.answer.wait(state.name);
        try {
            const keys = keysOf(this.keys.value, state);
            const found = await this.#query(state, this.at.value, keys);
            if (this.other.value) await this.#compare(state, found, keys);
            else this.answer.rows(state, found);
        } catch (error) {
            this.answer.refuse(
                error instanceof SyntaxError
                    ? `A key is no JSON: ${error.message}.`
                    : error.message,
            );
        } finally {
            this.button.disabled = false;
        }
    }

    async #query(state, at, keys, limit = Number(this.limit.value) || 100) {
        const moment =
            at === LIVE
                ? { at: "live" }
                : { at: "committed", epoch: at === LATEST ? LATEST : Number(at) };
        const asked = { states: [state.name], keys, limit, ...moment };
        return (await this.app.api.post("query", asked)).answers[0];
    }

    /** Where not all rows were given, the other side is asked for the same keys. */
    async #compare(state, found, keys) {
        const isSampled = found.is_cut && keys === null && state.key_names.length > 0;
        const asked = isSampled ? keysIn(found.rows, state.key_names) : keys;
        const other = await this.#query(state, this.other.value, asked, 10000);
        const isEarlier = (other.moment.epoch ?? Infinity) <= (found.moment.epoch ?? Infinity);
        const [before, after] = isEarlier ? [other, found] : [found, other];
        this.answer.changes(
            difference(before.rows, after.rows, state.key_names),
            before.moment,
            after.moment,
            isSampled,
        );
    }
}
