// Light or dark: as the system has it, unless the reader has chosen.

import { h, setText, setAttribute } from "./dom.js";

const NAME = "mainstay-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function current() {
    return localStorage.getItem(NAME) ?? (dark.matches ? "dark" : "light");
}

function apply() {
    document.documentElement.dataset.theme = current();
}

/** Sets the theme, and gives the button that changes it. */
export function themeSwitch() {
    const button = h("button", { class: "quiet theme", type: "button" });
    const show = () => {
        apply();
        const other = current() === "dark" ? "light" : "dark";
        setText(button, current() === "dark" ? "☾" : "☀");
        setAttribute(button, "aria-label", `Change to ${other} colours`);
        setAttribute(button, "title", `Change to ${other} colours`);
    };
    button.addEventListener("click", () => {
        localStorage.setItem(NAME, current() === "dark" ? "light" : "dark");
        show();
    });
    dark.addEventListener("change", show);
    show();
    return button;
}
