// Replicas as lanes: each node of a group over one axis of physical offsets, against the node that is to start first.
import { el, fill, onWidth, shown, size, svg, titled } from "./dom.js";
import { sample } from "./patterns.js";
import { FATES } from "./model.js";
import { table } from "./tables.js";

const LANE = 20;
const LABEL = 17;
const AXIS = 34;
const [SAME, OTHER, ALONE] = FATES;
const RELATIONS = {
    first: "starts first",
    level: "has the same records",
    behind: "ends earlier",
    parted: "has other records from here on",
    damaged: "has the same records, but for damaged ones",
};
const FOCUS = 0.1;

/** The section of all groups; null where the stores are not replicas of each other. */
export function replicasSection(page) {
    if (!page.groups?.length) return null;
    return el(
        "section",
        { id: "replicas", "aria-labelledby": "replicas-title" },
        el("h2", { id: "replicas-title" }, "Replicas"),
        page.groups.map(groupOf),
    );
}

function groupOf(group) {
    const lanes = group.lanes.map((lane) => ({ ...lane, parts: partsOf(lane, group.lanes[0]) }));
    const whole = extent(lanes);
    const near = focus(lanes, whole);
    const [head, ...lines] = group.lines;
    return el(
        "div",
        { class: "replica-group" },
        el("h3", {}, head),
        el("ul", {}, lines.map((line) => el("li", {}, line.trim()))),
        el(
            "ul",
            { class: "legend", "aria-label": "Patterns of replicas" },
            el("li", {}, sample(SAME), " as the first has it"),
            el("li", {}, sample(OTHER), " not as the first has it, or damaged in one of the two"),
            el("li", {}, sample(ALONE), " only here: the first has no file for it"),
        ),
        near && el("p", {}, "All of the logs:"),
        chart(lanes, whole),
        near && el("p", {}, `Enlarged, ${size(near[1] - near[0])}: from where not all have the same on:`),
        near && chart(lanes, near),
        laneTable(lanes),
    );
}

/** The ranges of a lane with a kind: the same as the first's, other records, or what the first has no file for. */
function partsOf(lane, first) {
    const parts = [];
    const add = (from, to, kind) => to > from && parts.push({ from, to, kind });
    const firstHeld = first.held;
    const other = lane.relation === "parted" ? (lane.parting_offset ?? 0) : Infinity;
    for (const [from, to] of lane.held) {
        let at = from;
        for (const [low, high] of firstHeld) {
            const [start, end] = [Math.max(at, low), Math.min(to, high)];
            if (end <= start) continue;
            add(at, start, at < other ? ALONE : OTHER);
            add(start, Math.min(end, Math.max(start, other)), SAME);
            add(Math.max(start, Math.min(end, other)), end, OTHER);
            at = end;
        }
        add(at, to, at < other ? ALONE : OTHER);
    }
    if (lane.relation !== "parted") for (const [from, to] of lane.different) add(from, to, OTHER);
    return parts;
}

function extent(lanes) {
    const ends = lanes.flatMap((lane) => lane.held.flat());
    return ends.length > 0 ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
}

/** The end of the logs from the first place on at which not all are the same; null where that is no small part. */
function focus(lanes, [low, high]) {
    const places = lanes.flatMap((lane) => [
        ...(lane.relation === "parted" ? [lane.parting_offset ?? low] : lane.different.map(([start]) => start)),
        ...lane.held.slice(-1).map(([, end]) => end),
    ]);
    const from = Math.min(high, ...places);
    const wide = high - from;
    return wide > 0 && wide < (high - low) * FOCUS ? [Math.max(low, from - wide / 4), high] : null;
}

function chart(lanes, range) {
    const place = el("div", { class: "strip-canvas" });
    onWidth(place, (width) => fill(place, drawn(lanes, range, width)));
    return place;
}

function drawn(lanes, [low, high], width) {
    const height = lanes.length * (LANE + LABEL) + AXIS;
    const made = svg("svg", { class: "chart replica-chart", width, height, "aria-hidden": "true" });
    const scale = width / Math.max(1, high - low);
    const x = (offset) => Math.min(width, Math.max(0, (offset - low) * scale));
    lanes.forEach((lane, row) => {
        const y = row * (LANE + LABEL) + LABEL;
        made.append(text(`${lane.root}: ${RELATIONS[lane.relation] ?? lane.relation}`, 0, y - 4, width));
        made.append(svg("rect", { x: 0.5, y: y + 0.5, width: Math.max(0, width - 1), height: LANE - 1, class: "edge" }));
        for (const part of lane.parts) {
            const [left, right] = [x(part.from), x(part.to)];
            if (right <= 0 || left >= width || part.to <= low || part.from >= high) continue;
            const box = svg("rect", { x: left, y, width: Math.max(right - left, 1), height: LANE, class: "part" });
            box.setAttribute("fill", `url(#kind-${part.kind.id})`);
            const words = `${shown(lane.root)}: ${part.from} to ${part.to}, ${size(part.to - part.from)}`;
            made.append(titled(box, words));
        }
    });
    const y = height - AXIS + 14;
    made.append(text(String(Math.round(low)), 0, y, width / 2));
    const end = text(String(Math.round(high)), width, y, width / 2);
    end.setAttribute("text-anchor", "end");
    made.append(end, text("physical offset", 0, y + 15, width));
    return made;
}

function text(words, x, y, width) {
    const room = Math.max(6, Math.floor(width / 7));
    const made = svg("text", { x, y });
    words = shown(words);
    made.textContent = words.length <= room ? words : `\u2026${words.slice(1 - room)}`;
    return made;
}

function laneTable(lanes) {
    const offset = (name, title, value) => ({ name, title, value, cell: (lane) => String(value(lane) ?? "") });
    const rows = table(
        [
            { name: "root", title: "Store", value: (lane) => lane.root },
            {
                name: "relation",
                title: "Against the first",
                value: (lane) => RELATIONS[lane.relation] ?? lane.relation,
            },
            offset("from", "From offset", (lane) => lane.held[0]?.[0]),
            offset("to", "To offset", (lane) => lane.held.at(-1)?.[1]),
            offset("parting", "The same up to", (lane) => lane.parting_offset),
            offset("kept", "Kept when it joins up to", (lane) => lane.kept_offset),
            { name: "lacks", title: "Records it lacks", value: (lane) => lane.lacking_count, numeric: true },
            { name: "alone", title: "Records only here", value: (lane) => lane.only_here_count, numeric: true },
        ],
        { caption: "Replicas", noun: ["replica", "replicas"], searched: false },
    );
    rows.setRows(lanes);
    return rows.element;
}
