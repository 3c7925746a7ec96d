// What the page knows of the job. Views read it; only this file changes it.

const RATES = 240;
/** A page may be open for days; older epochs can be asked for. */
const EPOCHS = 1000;

export class Model {
    constructor() {
        this.job = null;
        this.tasks = null;
        this.graph = null;
        this.epochs = new Map();
        this.hasOldest = false;
        this.rates = [];
        this.link = { state: "waiting", since: Date.now() / 1000, text: "" };
        /** How far the clock of the job is ahead of that of this machine. */
        this.ahead = 0;
    }

    /** The time by the clock of the job. */
    get now() {
        return Date.now() / 1000 + this.ahead;
    }

    get isOffline() {
        return this.job !== null && !this.job.is_live;
    }

    get isStandby() {
        return this.job !== null && this.job.status === "standby";
    }

    get isOver() {
        return ["finished", "stopped", "cancelled", "failed"].includes(this.job?.status);
    }

    get isGone() {
        return this.link.state === "gone";
    }

    /** Changes when something has happened that history, graph or failures tell of. */
    get course() {
        const { job } = this;
        return (
            job &&
            [job.status, job.attempt, job.parallelism, job.problems.length, job.started_at].join()
        );
    }

    takeEvent({ job, tasks, epochs_since: epochs, kept_epochs: kept }) {
        this.job = job;
        this.tasks = tasks;
        this.ahead = job.at - Date.now() / 1000;
        this.takeEpochs(epochs);
        this.#dropPending(epochs);
        this.#dropOldest();
        this.#markKept(new Set(kept));
        this.#takeRates(job);
        this.setLink("open");
    }

    /** Two attempts may use one number. */
    takeEpochs(epochs) {
        for (const each of epochs) this.epochs.set(`${each.epoch}/${each.attempt}`, each);
    }

    /** What was asked for by number; where fewer come than were asked for, there are no older. */
    takePage(epochs, limit) {
        if (epochs.length < limit) this.hasOldest = true;
        this.takeEpochs(epochs);
    }

    /** An event has all that are under way: others have ended, or went with their attempt. */
    #dropPending(epochs) {
        const known = new Set(epochs.map((each) => `${each.epoch}/${each.attempt}`));
        for (const [key, each] of this.epochs) {
            if (each.status === "pending" && !known.has(key)) this.epochs.delete(key);
        }
    }

    #dropOldest() {
        if (this.epochs.size <= 2 * EPOCHS) return;
        const kept = this.sortedEpochs().slice(-EPOCHS);
        this.epochs = new Map(kept.map((each) => [`${each.epoch}/${each.attempt}`, each]));
        this.hasOldest = false;
    }

    /** With every new one the oldest is no longer kept. */
    #markKept(kept) {
        for (const each of this.epochs.values()) {
            each.is_kept = each.status === "complete" && kept.has(each.epoch);
        }
    }

    /** Oldest first. */
    sortedEpochs() {
        return [...this.epochs.values()].sort((a, b) => a.attempt - b.attempt || a.epoch - b.epoch);
    }

    /** The rates of the last minutes outlive a reload of the page. */
    #takeRates(job) {
        const key = `mainstay-rates-${job.name}-${job.started_at}`;
        if (!this.rates.length) this.rates = JSON.parse(sessionStorage.getItem(key) ?? "[]");
        this.rates.push([job.at, job.rows_in_per_s ?? 0, job.rows_out_per_s ?? 0]);
        this.rates.splice(0, this.rates.length - RATES);
        this.ratesKey = key;
    }

    keepRates() {
        if (this.ratesKey) sessionStorage.setItem(this.ratesKey, JSON.stringify(this.rates));
    }

    setLink(state, text = "") {
        if (this.link.state !== state) this.link.since = Date.now() / 1000;
        this.link = { ...this.link, state, text };
    }
}
