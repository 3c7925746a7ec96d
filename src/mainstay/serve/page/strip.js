// A strip of bars, one for each subtask: busy from below, held back above it, the rest is idle.

import { s, setAttribute } from "./dom.js";

const HEIGHT = 26;
/** A worker reports twice in a second; one that has not for so long is held by a call. */
export const HELD_S = 3;

export function isHeld(subtask) {
    return (
        subtask.report_age_s !== null &&
        subtask.report_age_s !== undefined &&
        subtask.report_age_s >= HELD_S
    );
}

/** Three paths for any number of subtasks: an update is three attributes. */
export class Strip {
    constructor() {
        this.busy = s("path", { class: "busy" });
        this.held = s("path", { class: "held" });
        this.mute = s("path", { class: "mute" });
        this.element = s(
            "svg",
            { class: "strip", preserveAspectRatio: "none", "aria-hidden": "true" },
            s("rect", { class: "idle", width: "100%", height: HEIGHT }),
            this.busy,
            this.held,
            this.mute,
        );
    }

    update(subtasks) {
        const number = Math.max(1, subtasks.length);
        const gap = number > 96 ? 0 : 0.12;
        setAttribute(this.element, "viewBox", `0 0 ${number} ${HEIGHT}`);
        const [busy, held, mute] = [[], [], []];
        subtasks.forEach((each, index) => {
            const bar = (y, height) =>
                `M${index + gap / 2} ${y.toFixed(1)}h${1 - gap}v${height.toFixed(1)}h-${1 - gap}z`;
            if (isHeld(each)) {
                mute.push(bar(0, HEIGHT));
                return;
            }
            const [up, above] = [each.busy * HEIGHT, each.backpressured * HEIGHT];
            if (up >= 0.3) busy.push(bar(HEIGHT - up, up));
            if (above >= 0.3) held.push(bar(HEIGHT - up - above, above));
        });
        setAttribute(this.busy, "d", busy.join(""));
        setAttribute(this.held, "d", held.join(""));
        setAttribute(this.mute, "d", mute.join(""));
    }
}
