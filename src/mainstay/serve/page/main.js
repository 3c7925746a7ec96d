// The page: takes the token, listens to the job, and shows the view that the address names.

import { Api } from "./api.js";
import { h, nothing, setText } from "./dom.js";
import { Epochs } from "./epochs.js";
import { Events } from "./events.js";
import { Header } from "./header.js";
import { KeyGroups } from "./keygroups.js";
import { Model } from "./model.js";
import { Notice } from "./notice.js";
import { Overview } from "./overview.js";
import { States } from "./states.js";
import { Timeline } from "./timeline.js";
import { forgetToken, keepToken, knownToken, tokenForm } from "./token.js";

const EPOCHS = 200;
const VIEWS = {
    overview: Overview,
    epochs: Epochs,
    keys: KeyGroups,
    history: Timeline,
    state: States,
};

class App {
    constructor(token) {
        this.model = new Model();
        this.api = new Api(token, () => this.#refused());
        this.events = new Events(
            this.api,
            (name, document) => this.#heard(name, document),
            (error) => this.#lost(error),
            () => this.model.setLink("waiting"),
        );
        this.header = new Header(this);
        this.notice = new Notice();
        this.views = new Map();
        this.said = h("p", { class: "toast", role: "alert", hidden: true });
        this.main = h("main", { id: "main", tabindex: "-1" }, nothing("Connecting to the job …"));
        this.onRoute = () => this.#route();
        this.onHide = () => this.model.keepRates();
    }

    start() {
        document.body.replaceChildren(
            this.header.element,
            this.notice.element,
            this.main,
            this.said,
        );
        addEventListener("hashchange", this.onRoute);
        addEventListener("pagehide", this.onHide);
        this.#route();
        this.events.start();
    }

    #refused() {
        this.events.stop();
        clearInterval(this.ticking);
        removeEventListener("hashchange", this.onRoute);
        removeEventListener("pagehide", this.onHide);
        forgetToken();
        askForToken(true);
    }

    // ------------------------------------------------------------ views

    go(path) {
        location.hash = `#/${path}`;
    }

    #route() {
        const [name, ...more] = location.hash.replace(/^#\/?/, "").split("/");
        this.name = Object.hasOwn(VIEWS, name) ? name : "overview";
        if (!this.views.has(this.name)) this.views.set(this.name, new VIEWS[this.name](this));
        this.view = this.views.get(this.name);
        this.view.show(more);
        this.refresh();
    }

    /** Show what is known, once in a frame however often it is asked for. */
    refresh() {
        this.frame ??= requestAnimationFrame(() => {
            this.frame = null;
            this.#draw();
        });
    }

    #draw() {
        const { model } = this;
        this.header.update(model, this.name);
        this.notice.update(model);
        document.documentElement.dataset.link = model.link.state;
        if (!model.job) return;
        if (this.main.firstChild !== this.view.element)
            this.main.replaceChildren(this.view.element);
        this.view.update(model);
    }

    // ------------------------------------------------------------ what comes from the job

    #heard(name, document) {
        const isNew = this.model.link.state !== "open";
        if (name === "error") this.model.setLink("troubled", document.error);
        else {
            this.model.takeEvent(document);
            clearInterval(this.ticking);
            if (isNew || this.course !== this.model.course || !this.model.graph) this.#load(isNew);
        }
        this.refresh();
    }

    /** What an event does not tell: the graph, and epochs from before somebody listened. */
    async #load(withEpochs) {
        this.course = this.model.course;
        try {
            this.model.graph = await this.api.get("graph");
            if (withEpochs)
                this.model.takePage(await this.api.get(`epochs?limit=${EPOCHS}`), EPOCHS);
        } catch {
            this.course = null; // the next event tries again
        }
        this.refresh();
    }

    #lost(error) {
        if (error.status === 401) return;
        if (error.status) this.model.setLink("troubled", error.message);
        else this.model.setLink("gone");
        clearInterval(this.ticking);
        this.ticking = setInterval(() => this.refresh(), 1000);
        this.refresh();
    }

    /** Ask for something, and say why where it is refused. */
    async ask(call) {
        try {
            return await call();
        } catch (error) {
            setText(this.said, error.message);
            this.said.hidden = false;
            setTimeout(() => {
                this.said.hidden = true;
            }, 6000);
            return null;
        }
    }
}

function begin(token) {
    new App(token).start();
}

function askForToken(wasRefused) {
    const form = tokenForm(wasRefused, (token) => {
        keepToken(token);
        begin(token);
    });
    document.body.replaceChildren(form);
    form.querySelector("input").focus();
}

const token = knownToken();
if (token) begin(token);
else askForToken(false);
// A new address with another token in the same tab is a new beginning.
addEventListener("hashchange", () => {
    if (location.hash.includes("token=")) location.reload();
});
