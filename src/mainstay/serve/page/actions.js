// What can be asked of the job, each behind a dialog that says what it does.

import { h, setAttribute } from "./dom.js";
import { count } from "./format.js";

const ACTIONS = [
    {
        name: "savepoint",
        label: "Savepoint",
        title: "Write a savepoint",
        confirm: "Write the savepoint",
        text: () =>
            "The job goes on meanwhile. A savepoint is kept until somebody deletes it, and a job of another parallelism or with other code can start from it.",
        fields: () => [place("An absolute path or a URL that the driver can reach", true)],
        body: (form) => ({ path: form.path.value.trim() }),
    },
    {
        name: "rescale",
        label: "Rescale",
        title: "Change the parallelism",
        confirm: "Rescale the job",
        text: ({ job }) =>
            `The job runs at ${count(job.parallelism)}. It takes an epoch, stops for a moment and goes on from there.`,
        fields: ({ job }) => [
            h(
                "label",
                {},
                "Parallelism",
                h("input", {
                    name: "parallelism",
                    type: "number",
                    min: "1",
                    max: job.max_parallelism,
                    value: String(job.parallelism),
                    required: true,
                }),
            ),
        ],
        body: (form) => ({ parallelism: Number(form.parallelism.value) }),
    },
    {
        name: "stop",
        label: "Stop",
        title: "Stop the job",
        confirm: "Stop the job",
        isGrave: true,
        text: () =>
            "The job takes one last epoch, or a savepoint where you name a place, and ends. It can be started again from there.",
        fields: () => [
            place("A place for a savepoint; leave it empty for none", false),
            h(
                "label",
                { class: "tick" },
                h("input", { name: "drain", type: "checkbox" }),
                " Drain: fire all timers and windows first, as at the end of the input. What it stands for cannot be continued.",
            ),
        ],
        body: (form) => ({ path: form.path.value.trim() || null, drain: form.drain.checked }),
    },
    {
        name: "cancel",
        label: "Cancel",
        title: "Cancel the job",
        confirm: "Cancel the job",
        isGrave: true,
        text: ({ job }) =>
            `The job ends at once. What came after epoch ${count(job.epoch)} is done again when it is started from there. To end it without that, stop it.`,
        fields: () => [],
        body: () => ({}),
    },
];

function place(text, isRequired) {
    return h(
        "label",
        {},
        text,
        h("input", {
            name: "path",
            type: "text",
            spellcheck: "false",
            autocomplete: "off",
            placeholder: "/savepoints/before-the-change",
            required: isRequired,
        }),
    );
}

/** Why nothing can be asked of the job; empty where it can. */
export function whyNot(model) {
    if (!model.job || model.isGone) return "The server does not answer.";
    if (model.isOffline) return "This is a snapshot directory; no job runs here.";
    if (model.isStandby) return "This process stands by; ask the leader.";
    return model.isOver ? `The job is over (${model.job.status}).` : "";
}

export class Actions {
    constructor(app) {
        this.app = app;
        this.buttons = ACTIONS.map((action) =>
            h(
                "button",
                {
                    class: action.isGrave ? "quiet grave" : "quiet",
                    type: "button",
                    "data-action": action.name,
                    disabled: true,
                    on: { click: () => this.#open(action) },
                },
                action.label,
            ),
        );
        this.element = h(
            "div",
            { class: "actions", role: "group", "aria-label": "Actions" },
            ...this.buttons,
        );
    }

    update(model) {
        const why = whyNot(model);
        for (const button of this.buttons) {
            setAttribute(button, "disabled", why !== "");
            setAttribute(button, "title", why || null);
        }
    }

    #open(action) {
        const { model } = this.app;
        const said = h("p", { class: "outcome", role: "status" });
        const confirm = h(
            "button",
            { class: action.isGrave ? "primary grave" : "primary", type: "submit" },
            action.confirm,
        );
        const back = h(
            "button",
            { class: "quiet", type: "button", on: { click: () => dialog.close() } },
            "Go back",
        );
        const submit = (event) => {
            event.preventDefault();
            this.#run(action, event.target, { said, confirm, back });
        };
        const form = h(
            "form",
            { on: { submit } },
            h("h2", { id: "dialog-title" }, action.title),
            h("p", {}, h("b", {}, model.job.name), ". ", action.text(model)),
            ...action.fields(model),
            said,
            h("div", { class: "buttons" }, back, confirm),
        );
        const dialog = h(
            "dialog",
            { "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } },
            form,
        );
        document.body.append(dialog);
        dialog.showModal();
    }

    async #run(action, form, { said, confirm, back }) {
        confirm.disabled = true;
        said.className = "outcome";
        said.textContent = "It is being done …";
        try {
            const done = await this.app.api.post(action.name, action.body(form));
            said.classList.add(done.is_done ? "good" : "wait");
            said.textContent =
                sentence(done.text) + (done.is_done && done.path ? ` It is at ${done.path}.` : "");
            back.textContent = "Close";
            confirm.hidden = true;
            back.focus();
        } catch (error) {
            said.classList.add("bad");
            said.textContent = error.message;
            confirm.disabled = false;
        }
    }
}

function sentence(text) {
    return text.charAt(0).toUpperCase() + text.slice(1);
}
