// One line below the header: what is unusual about this page just now, and what to do.

import { h, redraw, setAttribute } from "./dom.js";
import { elapsed, moment } from "./format.js";

export class Notice {
    constructor() {
        this.element = h("div", { class: "notice", role: "status", hidden: true });
    }

    update(model) {
        const [kind, ...parts] = noticeOf(model) ?? [];
        this.element.hidden = !kind;
        setAttribute(this.element, "data-kind", kind ?? null);
        redraw(this.element, [kind, parts.map((each) => each.outerHTML ?? each)], () => parts);
    }
}

function noticeOf(model) {
    const { job, link } = model;
    if (link.state === "gone") return gone(model);
    if (link.state === "troubled")
        return [
            "warn",
            h("b", {}, "The job cannot be asked just now. "),
            link.text,
            " What is shown is older.",
        ];
    if (!job) return null;
    if (model.isOffline)
        return [
            "calm",
            h("b", {}, "Offline. "),
            "This is read from ",
            h("code", {}, job.snapshot_place),
            " alone. Rates, queues, live state and actions need the running job; the rest is here, and follows when the directory grows.",
        ];
    if (model.isStandby)
        return [
            "calm",
            h("b", {}, "Standby. "),
            `This process leads nothing${job.leader ? `; ${job.leader} leads the job` : ""}. Rates and actions are on the leader's page. This one takes over when the leader is away.`,
        ];
    return null;
}

function gone({ job, link }) {
    const since = `The server has not answered since ${moment(link.since)} (${elapsed(Date.now() / 1000 - link.since)}). `;
    const what = h("b", {}, since);
    const place = job?.snapshot_place;
    const look = place
        ? [" Its snapshots can be seen with ", h("code", {}, `mainstay ui ${place}`), "."]
        : [];
    return [
        "bad",
        what,
        "The process of the job has ended, or the network is away. Look whether the driver runs, and at its log.",
        ...look,
        " This page connects again by itself; what it shows is as it was then.",
    ];
}
