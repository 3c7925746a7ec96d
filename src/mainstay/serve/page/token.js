// The token: taken from the address once, kept for this tab, and asked for where it is missing.

import { h } from "./dom.js";

const NAME = "mainstay-token";

/** The token of this tab. It leaves the address, so that it is in no history and no bookmark. */
export function knownToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
        sessionStorage.setItem(NAME, given);
        history.replaceState(null, "", `${location.pathname}#/overview`);
    }
    return sessionStorage.getItem(NAME) ?? "";
}

export function keepToken(token) {
    sessionStorage.setItem(NAME, token);
}

export function forgetToken() {
    sessionStorage.removeItem(NAME);
}

/** A form that asks for the token; `given` is called with it. */
export function tokenForm(wasRefused, given) {
    const field = h("input", {
        id: "token",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
    });
    const submit = (event) => {
        event.preventDefault();
        const token = field.value.trim().replace(/^.*#token=/, "");
        if (token) given(token);
    };
    const why = wasRefused
        ? "The token was refused: it is wrong, or of an earlier start of this job."
        : "This page needs the token of the job.";
    return h(
        "main",
        { class: "ask", id: "main" },
        h(
            "form",
            { class: "panel", on: { submit } },
            h("h1", {}, wasRefused ? "Another token is needed" : "A token is needed"),
            h("p", { role: wasRefused ? "alert" : null }, why),
            h(
                "p",
                {},
                "It is what ",
                h("code", {}, "job.url"),
                " has behind ",
                h("code", {}, "#token="),
                "; ",
                h("code", {}, "mainstay ui"),
                " prints such an address, too. The whole address will do.",
            ),
            h("label", { for: "token" }, "Token"),
            field,
            h("button", { class: "primary", type: "submit" }, "Show the job"),
        ),
    );
}
