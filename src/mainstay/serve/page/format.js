// Numbers, durations, sizes and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const UNKNOWN = "–";

export function count(value) {
    return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

export function rate(value) {
    if (value === null || value === undefined) return UNKNOWN;
    return value >= 100 ? whole.format(value) : tenth.format(value);
}

/** A count in little room. */
export function brief(value) {
    if (value === null || value === undefined) return UNKNOWN;
    for (const [size, name] of [
        [1e9, "G"],
        [1e6, "M"],
        [1e4, "k"],
    ]) {
        if (value >= size) return `${tenth.format(value / (size === 1e4 ? 1e3 : size))} ${name}`;
    }
    return value >= 100 ? whole.format(value) : tenth.format(value);
}

export function percent(part) {
    return part === null || part === undefined ? UNKNOWN : `${Math.round(part * 100)}%`;
}

export function bytes(value) {
    if (value === null || value === undefined) return UNKNOWN;
    for (const [size, name] of [
        [1e12, "TB"],
        [1e9, "GB"],
        [1e6, "MB"],
        [1e3, "kB"],
    ]) {
        if (value >= size) return `${tenth.format(value / size)} ${name}`;
    }
    return `${whole.format(value)} B`;
}

export function duration(seconds) {
    if (seconds === null || seconds === undefined) return UNKNOWN;
    if (seconds === 0) return "0 s";
    if (seconds < 0.001) return `${tenth.format(seconds * 1e6)} µs`;
    if (seconds < 1)
        return `${seconds < 0.01 ? tenth.format(seconds * 1e3) : whole.format(seconds * 1e3)} ms`;
    if (seconds < 60) return `${tenth.format(seconds)} s`;
    return long(Math.round(seconds));
}

/** A duration in whole seconds, for what counts up while one looks. */
export function elapsed(seconds) {
    if (seconds === null || seconds === undefined) return UNKNOWN;
    const rounded = Math.max(0, Math.floor(seconds));
    return rounded < 60 ? `${rounded} s` : long(rounded);
}

function long(seconds) {
    const [days, hours] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24];
    const [minutes, rest] = [Math.floor(seconds / 60) % 60, seconds % 60];
    if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
    if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
    return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A time of the day, with the date where it is another day's. */
export function moment(at) {
    if (at === null || at === undefined) return UNKNOWN;
    const date = new Date(at * 1000);
    const today = date.toDateString() === new Date().toDateString();
    return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

export function iso(at) {
    return at === null || at === undefined ? "" : new Date(at * 1000).toISOString();
}

/** "1 row", "2 rows". */
export function many(number, one, more = `${one}s`) {
    return `${count(number)} ${number === 1 ? one : more}`;
}
