// The states of each store in earlier runs, as a row of marks, the newest on the right.
import { counted, el, shown, svg, time, titled } from "./dom.js";

const WIDE = 9;
const HIGH = 16;
/** How high a mark is, and its tone: what is worse is higher, so that nobody needs colour. */
const MARKS = {
    healthy: [4, "data"],
    unclean: [4, "data"],
    running: [4, "none"],
    partial: [8, "none"],
    unknown: [8, "none"],
    damaged: [11, "worn"],
    lost: [11, "worn"],
};
const WORST = [HIGH, "bad"];

/** What a history draws for the store in a row of the page; null for a page without earlier runs. */
export function historyOf(page, rows) {
    const { history } = page;
    if (!history) return null;
    const runs = [...history.runs, page.stores.run_id[0]];
    const times = [...history.timestamps, null];
    const earlier = new Map();
    history.states.store.forEach((store, at) => {
        if (!earlier.has(store)) earlier.set(store, []);
        earlier.get(store).push({
            run: history.states.run[at],
            state: history.states.state[at],
            errors: history.states.error_count[at],
            warnings: history.states.warning_count[at],
        });
    });
    rows.forEach((row, at) => {
        const marks = earlier.get(at) ?? [];
        const now = { run: runs.length - 1, state: row.state, errors: row.error_count, warnings: row.warning_count };
        row.marks = marks.length > 0 ? [...marks, now] : [];
    });
    return (row) => (row.marks.length > 0 ? drawn(row, runs, times) : "");
}

function drawn(row, runs, times) {
    const made = svg("svg", { class: "chart history", width: WIDE * runs.length, height: HIGH + 1, "aria-hidden": "true" });
    made.append(svg("path", { class: "edge", d: `M0 ${HIGH + 0.5}H${WIDE * runs.length}` }));
    for (const mark of row.marks) {
        const [high, tone] = MARKS[mark.state] ?? WORST;
        const attributes = {
            x: mark.run * WIDE + 1,
            y: HIGH - high,
            width: WIDE - 2,
            height: high,
            class: `mark-of-run solid tone-${tone}`,
        };
        made.append(titled(svg("rect", attributes), titleOf(mark, runs, times)));
    }
    const words = row.marks.map((mark) => titleOf(mark, runs, times)).join("; ");
    return el("span", { class: "range" }, made, el("span", { class: "heard" }, words));
}

function titleOf(mark, runs, times) {
    const when = mark.run === runs.length - 1 ? "this run" : time(times[mark.run]) || runs[mark.run];
    const counts = [
        mark.errors > 0 && counted(mark.errors, "error"),
        mark.warnings > 0 && counted(mark.warnings, "warning"),
    ].filter(Boolean);
    return shown([`${when}: ${mark.state}`, ...counts].join(", "));
}
