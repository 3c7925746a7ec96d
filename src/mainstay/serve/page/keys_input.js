// Keys as they are typed, one in a line, and as they are sent.

/** A line as a key. The server knows the types, and says what does not fit. */
export function keyOf(line, state) {
    const text = line.trim();
    if (state.key_names.length > 1) return columnsOf(text);
    if (state.key_type === "string") return isQuoted(text) ? JSON.parse(text) : text;
    return plain(text);
}

function columnsOf(text) {
    return text.startsWith("[") || text.startsWith("{")
        ? JSON.parse(text)
        : text.split(",").map((part) => plain(part.trim()));
}

function isQuoted(text) {
    return text.length > 1 && text.startsWith('"') && text.endsWith('"');
}

/** A number, truth, null or a quoted text as JSON has it; anything else is a text. */
function plain(text) {
    if (/^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text))) return text;
    try {
        return JSON.parse(text);
    } catch {
        return text;
    }
}

export function keysOf(text, state) {
    const lines = text.split("\n").filter((line) => line.trim());
    return lines.length ? lines.map((line) => keyOf(line, state)) : null;
}

export function hintOf(state) {
    if (!state) return "";
    if (!state.key_names.length) return "This state has no keys: leave the field empty.";
    if (state.key_names.length > 1)
        return `One key in a line: ${state.key_names.join(", ")}, with commas between or as a JSON list. Empty: the first rows.`;
    return `One ${state.key_names[0]} (${state.key_type}) in a line. Empty: the first rows.`;
}
