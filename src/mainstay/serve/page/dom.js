// Elements: made in one call, and changed only where something differs.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, props, children) {
    for (const [name, value] of Object.entries(props)) {
        if (value === null || value === undefined || value === false) continue;
        if (name === "on") {
            for (const [event, listener] of Object.entries(value))
                node.addEventListener(event, listener);
        } else if (name === "value") node.value = value;
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((each) => each !== null && each !== undefined));
    return node;
}

/** An element of HTML. `on` has its listeners; null and false attributes are left out. */
export function h(tag, props = {}, ...children) {
    return filled(document.createElement(tag), props, children);
}

/** An element of SVG. */
export function s(tag, props = {}, ...children) {
    return filled(document.createElementNS(SVG, tag), props, children);
}

export function setText(node, text) {
    const value = String(text);
    if (node.textContent !== value) node.textContent = value;
}

export function setAttribute(node, name, value) {
    if (value === null || value === undefined || value === false) {
        if (node.hasAttribute(name)) node.removeAttribute(name);
    } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const drawn = new WeakMap();

/** Build the children of a node anew where what they show has changed. */
export function redraw(node, shown, build) {
    const key = JSON.stringify(shown);
    if (drawn.get(node) === key) return;
    drawn.set(node, key);
    const built = build();
    node.replaceChildren(...(Array.isArray(built) ? built : [built]).flat().filter(Boolean));
}

const SIGNS = {
    good: ["M8 1a7 7 0 1 0 0 14a7 7 0 0 0 0-14z", "M4.8 8.3l2.2 2.2l4.2-4.6"],
    warn: ["M8 1.4L15.2 14.4H0.8z", "M8 6v4M8 12.2v.2"],
    bad: ["M5 1h6l4 4v6l-4 4H5l-4-4V5z", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"],
    wait: ["M8 1a7 7 0 1 0 0 14a7 7 0 0 0 0-14z", "M8 4.4V8l2.6 1.8"],
};

/** A sign with a shape of its own, so that colour says nothing alone. */
export function sign(kind) {
    const [body, mark] = SIGNS[kind];
    return s(
        "svg",
        { class: `sign sign-${kind}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
        s("path", { class: "body", d: body }),
        s("path", { class: "stroke", d: mark }),
    );
}

/** A panel with a heading; what stands beside the heading comes third. */
export function panel(title, body, beside = []) {
    const head = h("header", {}, h("h2", {}, title), ...[beside].flat());
    return h("section", { class: "panel" }, head, ...[body].flat());
}

/** What is said where there is nothing to show. */
export function nothing(text) {
    return h("p", { class: "nothing" }, text);
}
