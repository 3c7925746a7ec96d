// Server-sent events over fetch, because an EventSource cannot send the token in a header.

const SILENCE_MS = 15000;
const WAITS_MS = [500, 1000, 2000, 3000];

/**
 * Listens while the tab is seen, and again by itself after a failure.
 * `heard` is called with the name and the document of each event, `lost` with a Refusal,
 * and `paused` when the tab is hidden: what happens until it is seen again was not heard.
 */
export class Events {
    constructor(api, heard, lost, paused) {
        this.api = api;
        this.heard = heard;
        this.lost = lost;
        this.paused = paused;
        this.failures = 0;
        this.onVisibility = () => this.#follow();
    }

    start() {
        document.addEventListener("visibilitychange", this.onVisibility);
        this.#follow();
    }

    stop() {
        document.removeEventListener("visibilitychange", this.onVisibility);
        this.#pause();
    }

    /** A tab that nobody sees costs the job nothing. */
    #follow() {
        if (document.hidden) {
            this.#pause();
            this.paused();
        } else if (!this.listening) this.#listen();
    }

    #pause() {
        clearTimeout(this.again);
        this.listening?.abort();
        this.listening = null;
    }

    async #listen() {
        const listening = new AbortController();
        this.listening = listening;
        try {
            const answer = await this.api.fetch("events", { signal: listening.signal });
            await this.#read(answer.body.getReader(), listening);
            throw new Error("the server has ended the stream");
        } catch (error) {
            if (this.listening === listening) this.#failed(error);
        }
    }

    async #read(reader, listening) {
        const decoder = new TextDecoder();
        let text = "";
        for (;;) {
            const silence = setTimeout(() => listening.abort(), SILENCE_MS);
            const { done, value } = await reader.read().finally(() => clearTimeout(silence));
            if (done) return;
            text += decoder.decode(value, { stream: true });
            const events = text.split("\n\n");
            text = events.pop();
            for (const event of events) this.#tell(event);
        }
    }

    #tell(event) {
        const lines = event.split("\n");
        const field = (name) =>
            lines
                .filter((line) => line.startsWith(`${name}: `))
                .map((line) => line.slice(name.length + 2));
        this.failures = 0;
        this.heard(field("event")[0] ?? "message", JSON.parse(field("data").join("\n")));
    }

    #failed(error) {
        this.listening = null;
        this.lost(error);
        if (error.status === 401 || document.hidden) return;
        const wait = WAITS_MS[Math.min(this.failures, WAITS_MS.length - 1)];
        this.failures += 1;
        this.again = setTimeout(() => this.#follow(), wait);
    }
}
