// The lanes of the map: what each shows of a range of bytes, and how it is drawn.
import { dot, rect, ruleX, text } from "@observablehq/plot";
import { chart } from "./charts.js";
import { counted, size } from "./dom.js";
import { bytesIn } from "./hex.js";
import { FATES, fileAt } from "./model.js";
import { cut, firstAfter, gathered, mergedSpans } from "./spans.js";

const BAR = 22;
const LABEL = 17;
const SEVERITIES = [
    ["info", "\u25cf", "circle"],
    ["warning", "\u25c6", "diamond"],
    ["error", "\u25b2", "triangle"],
];
const FATE_RANKS = FATES.map((fate) => fate.rank);

/** The rank of a severity: a mark of several findings is that of the worst. */
export function rankOf(severity) {
    return SEVERITIES.findIndex(([name]) => name === severity);
}

/** The places of the plan, merged: spans of the kind `repaired`. */
export function mergedPlaces(model) {
    const merged = mergedSpans(model.actions.flatMap((action) => action.places));
    return {
        starts: merged.map(([start]) => start),
        ends: merged.map(([, end]) => end),
        kinds: merged.map(() => 3),
    };
}

/** The lanes of a view, from top to bottom: {title, parts} or {title, marks}. */
export function lanesOf(model, view, listed, repairs, width) {
    const { from, to } = view;
    const columns = Math.max(60, Math.floor(width / (view.isOne ? 10 : 2)));
    const lanes = [{ title: "Files", parts: fileParts(model, from, to, columns) }];
    const fates = (spans) =>
        cut(spans, from, to, columns, FATE_RANKS).map((part) => ({ ...part, fill: FATES[part.kind] }));
    const content = cut(model.spans, from, to, columns, model.ranks).map((part) => ({
        ...part,
        fill: model.kinds[part.kind],
    }));
    const repaired = fates(repairs);
    if (model.after)
        lanes.push({ title: "Content after the plan", parts: [...content, ...repaired] });
    else lanes.push({ title: "Content", parts: content });
    for (const start of model.lanes) {
        const over = start.over.filter((part) => part.end > from && part.start < to).slice(0, columns);
        const step = (to - from) / columns;
        const marks = over.map((part) => ({
            start: Math.max(from, part.start),
            end: Math.min(to, Math.max(part.end, part.start + step)),
            fill: FATES[part.kind],
        }));
        lanes.push({
            title: `A start of ${start.versions.join(", ")}`,
            parts: [...fates(start.spans), ...marks],
        });
    }
    if (repairs.starts.length > 0 && !model.after)
        lanes.push({ title: "Places of the plan", parts: repaired });
    const places = listed.map((finding) => ({
        start: finding.at,
        end: finding.to,
        index: finding.index,
        weight: finding.count,
        rank: rankOf(finding.rule.severity),
    }));
    const crowds = model.crowds.map((one) => ({ ...one, rank: rankOf(one.severity) }));
    const worst = [...SEVERITIES].reverse().map(([name, sign]) => `${sign} ${name}`);
    lanes.push({
        title: `${model.after ? "Findings that the plan leaves" : "Findings"} (${worst.join(", ")})`,
        marks: gathered([...places, ...crowds], from, to, Math.max(8, Math.floor(width / 30))),
    });
    if (to - from <= width / 18) lanes.push(...byteLanes(model, from, to));
    return lanes;
}

function fileParts(model, from, to, columns) {
    const first = firstAfter(model.laidEnds, from);
    const parts = [];
    const step = (to - from) / columns;
    for (let at = first; at < model.laid.length && model.laid[at].start < to; at += 1) {
        const file = model.laid[at];
        const last = parts[parts.length - 1];
        if (last && file.end - file.start < step && last.end - last.start < step) last.end = file.end;
        else
            parts.push({
                start: Math.max(from, file.start),
                end: Math.min(to, file.end),
                label: file.path,
                name: file.path.split("/").pop(),
            });
    }
    return parts;
}

function byteLanes(model, from, to) {
    const found = bytesIn(model, from, to);
    if (!found) return [{ title: "Bytes (not in this page)", parts: [] }];
    return [
        { title: "Bytes", parts: found.bytes },
        { title: "Fields", parts: found.fields },
    ];
}

/** The chart of the lanes of a view. */
export function drawn(model, view, lanes, width, area, isOne) {
    const { from, to } = view;
    const file = fileAt(model, from);
    const single = file && to <= file.end;
    const origin = single ? file.start : area.start;
    const hasAxis = !isOne || area.family === "commitlog";
    const below = hasAxis ? 34 : 4;
    const height = lanes.length * (BAR + LABEL) + below;
    const narrow = width < 500;
    const top = (row) => row * (BAR + LABEL) + LABEL;
    const marks = [];
    lanes.forEach((lane, row) => {
        const y1 = top(row);
        const y2 = y1 + BAR;
        const x = { x1: (part) => part.start - origin, x2: (part) => part.end - origin, y1, y2 };
        marks.push(
            text([lane.title], {
                x: from - origin,
                y: y1,
                dy: -3,
                text: (title) => title,
                textAnchor: "start",
                lineAnchor: "bottom",
                className: "lane",
            }),
        );
        marks.push(rect([0], { x1: from - origin, x2: to - origin, y1, y2, className: "frame" }));
        if (lane.marks) return void marks.push(...findingMarks(lane.marks, origin, y1));
        const filled = lane.parts.filter((part) => part.fill);
        marks.push(
            rect(filled, {
                ...x,
                y1: (part) => y1 + BAR * (part.low ?? 0),
                y2: (part) => y1 + BAR * (part.high ?? 1),
                fill: (part) => `url(#kind-${part.fill.id})`,
                title: (part) => `${part.fill.title}, ${size(part.end - part.start)}`,
                className: "parts",
            }),
        );
        const named = lane.parts.filter((part) => part.label !== undefined);
        if (named.length > 0) marks.push(...labels(named, x, y1, (width - 20) / (to - from), origin));
    });
    const chosen = view.finding === null ? null : model.findings[view.finding];
    if (chosen && chosen.at !== null && chosen.to > from && chosen.at < to) {
        const ends = [chosen.at, chosen.to].filter((place) => place >= from && place <= to);
        marks.push(
            ruleX(ends, { x: (place) => place - origin, y1: 0, y2: height - below + 4, className: "chosen" }),
        );
    }
    const power = single ? 0 : Math.min(4, Math.floor(Math.log2(Math.max(2, to - origin)) / 10));
    const unit = 1024 ** power;
    const label = single
        ? "position in the file"
        : `${["bytes", "KiB", "MiB", "GiB", "TiB"][power]} from the start of the ${area.title}`;
    const made = chart({
        width,
        height,
        marginLeft: 10,
        marginRight: 10,
        marginTop: 0,
        marginBottom: below,
        x: {
            domain: [(from - origin) / unit, (to - origin) / unit],
            transform: (place) => place / unit,
            label,
            ticks: narrow ? 3 : 8,
            tickFormat: String,
            labelAnchor: "center",
            ...(hasAxis ? {} : { axis: null }),
        },
        y: { axis: null, domain: [0, height], range: [0, height] },
        marks,
    });
    made.dataset.from = from;
    made.dataset.to = to;
    return made;
}

function labels(parts, x, y, perByte, origin) {
    const fits = parts.filter((part) => (part.end - part.start) * perByte > 16);
    const short = (part) => {
        const room = Math.floor(((part.end - part.start) * perByte - 8) / 7.8);
        const words = part.label.length <= room ? part.label : (part.name ?? part.label);
        return words.length <= room ? words : room > 6 ? `…${words.slice(1 - room)}` : "";
    };
    return [
        rect(parts, { ...x, className: "boxes", title: "label" }),
        text(fits, {
            x: (part) => (part.start + part.end) / 2 - origin,
            y: y + BAR / 2,
            text: short,
            className: "inside",
        }),
    ];
}

function findingMarks(cells, origin, y) {
    const x = (cell) => (cell.start + cell.end) / 2 - origin;
    const many = cells.filter((cell) => cell.count > 1);
    const signs = SEVERITIES.map(([name, , symbol], rank) =>
        dot(
            cells.filter((cell) => cell.rank === rank),
            {
                x,
                y: y + 6,
                symbol,
                r: 5,
                className: `finding ${name}`,
                title: (cell) => `${counted(cell.count, "finding")}, the worst: ${name}`,
            },
        ),
    );
    return [
        ...signs,
        text(many, {
            x,
            y: y + 17,
            text: (cell) => (cell.count > 999 ? `${Math.round(cell.count / 1000)}k` : String(cell.count)),
            className: "tally",
        }),
    ];
}
