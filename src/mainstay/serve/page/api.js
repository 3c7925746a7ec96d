// REST: every request carries the token, and every error is a sentence.

const ROOT = "api/v1/";

/** A request that was not answered as hoped. `status` is 0 where there was no answer at all. */
export class Refusal extends Error {
    constructor(status, kind, text) {
        super(text);
        this.status = status;
        this.kind = kind;
    }
}

export class Api {
    constructor(token, refused) {
        this.token = token;
        this.refused = refused;
    }

    async get(path) {
        return (await this.fetch(path)).json();
    }

    /** Whole numbers beyond what JavaScript can hold come as texts, where the browser lets them. */
    async post(path, body) {
        const headers = { "Content-Type": "application/json" };
        const answer = await this.fetch(path, {
            method: "POST",
            headers,
            body: JSON.stringify(body),
        });
        return JSON.parse(await answer.text(), exact);
    }

    /** The raw answer; `refused` is told of a token that is not taken. */
    async fetch(path, options = {}) {
        const headers = { ...options.headers, Authorization: `Bearer ${this.token}` };
        let answer;
        try {
            answer = await fetch(ROOT + path, { ...options, headers, cache: "no-store" });
        } catch (error) {
            if (error.name === "AbortError") throw error;
            throw new Refusal(0, "away", "The server does not answer.");
        }
        if (answer.status === 401) this.refused();
        if (!answer.ok) throw await refusal(answer);
        return answer;
    }
}

function exact(_, value, context) {
    const isLost =
        typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isLost && context?.source ? context.source : value;
}

async function refusal(answer) {
    let told = {};
    try {
        told = await answer.json();
    } catch {
        // A proxy may have answered, in words of its own.
        told = { error: `The answer was ${answer.status} ${answer.statusText}.` };
    }
    return new Refusal(answer.status, told.kind ?? "internal", sentence(told.error));
}

export function sentence(text) {
    const shown = text.charAt(0).toUpperCase() + text.slice(1);
    return /[.!?]$/.test(shown) ? shown : `${shown}.`;
}
