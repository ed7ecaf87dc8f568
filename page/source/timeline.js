// The store in time: messages, damage, gaps and events.
import { axisX, axisY, dot, rectY, rect, ruleY } from "@observablehq/plot";
import { chart } from "./charts.js";
import { count, counted, el, fill, onWidth, size, time } from "./dom.js";
import { table } from "./tables.js";
import { topicTimes } from "./topictimes.js";

const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "hexagon"];

/** The section of the timeline, or the reason why there is none. */
export function timelineSection(model, view) {
    const { timeline } = model.page;
    const section = el(
        "section",
        { id: "timeline", "aria-labelledby": "timeline-title" },
        el("h2", { id: "timeline-title" }, "Timeline"),
    );
    if (!timeline) return (section.append(...reasons(model, "timeline")), section);
    const place = el("div", { class: "canvas still" });
    const kinds = [...new Set(timeline.events.kind)];
    const bars = timeline.buckets.timestamp.map((at, row) => ({
        from: at,
        to: at + timeline.step_ms,
        messages: timeline.buckets.message_count[row],
        bytes: timeline.buckets.byte_count[row],
    }));
    const lost = timeline.lost.first_timestamp.map((from, row) => ({
        from,
        to: Math.max(timeline.lost.last_timestamp[row], from),
        file: model.files[timeline.lost.file[row]] ?? null,
        start: timeline.lost.start[row],
        bytes: timeline.lost.byte_count[row],
    }));
    const events = timeline.events.timestamp.map((at, row) => ({
        at,
        kind: timeline.events.kind[row],
        message: timeline.events.message[row],
        file: model.files[timeline.events.file[row]] ?? null,
        physical: timeline.events.physical_offset[row],
    }));
    const domain = domainOf(timeline, bars, events);
    if (domain) onWidth(place, (width) => fill(place, drawn(domain, bars, lost, events, kinds, width)));
    section.append(
        el(
            "p",
            {},
            `${counted(
                bars.reduce((sum, bar) => sum + bar.messages, 0),
                "message",
            )}, ${counted(timeline.event_counts.count, "event")}, damage at ${counted(lost.length, "time")}.`,
        ),
        place,
        el(
            "ul",
            { class: "legend", "aria-label": "Marks of the timeline" },
            kinds.map((kind, at) => el("li", {}, symbolOf(at), ` ${kind}`)),
            lost.length > 0 && el("li", {}, "hatched columns: damage"),
        ),
        listOf(events, kinds, timeline, model, view),
        lostTable(lost, model, view) ?? "",
        barTable(bars),
        (domain && topicTimes(model, timeline, lost, domain)) ?? "",
    );
    return section;
}

export function reasons(model, what) {
    const found = model.page.left_out.filter((one) => one.what === what);
    if (found.length === 0) return [el("p", {}, "The store has nothing of this kind.")];
    return found.map((one) => el("p", {}, `Not in this page: ${one.reason}.`));
}

function symbolOf(at) {
    const made = chart({
        width: 14,
        height: 14,
        margin: 0,
        axis: null,
        x: { domain: [0, 1] },
        y: { domain: [0, 1] },
        marks: [dot([0], { x: 0.5, y: 0.5, r: 4, symbol: SYMBOLS[at % SYMBOLS.length], className: "event" })],
    });
    made.classList.add("sample");
    return made;
}

/** From where to where charts in time go, a little more than the messages do; null where nothing has a time. */
function domainOf(timeline, bars, events) {
    const times = [...bars.flatMap((bar) => [bar.from, bar.to]), ...events.map((event) => event.at)];
    if (times.length === 0) return null;
    const from = timeline.first_timestamp ?? Math.min(...times);
    const to = Math.max(timeline.last_timestamp ?? Math.max(...times), from + 1);
    const margin = (to - from) * 0.02;
    return [from - margin, to + margin];
}

function drawn([left, right], bars, lost, events, kinds, width) {
    const inside = bars
        .filter((bar) => bar.to > left && bar.from < right)
        .map((bar) => ({ ...bar, from: Math.max(left, bar.from), to: Math.min(right, bar.to) }));
    const most = Math.max(1, ...inside.map((bar) => bar.messages));
    const narrowest = (right - left) / Math.max(50, width / 3);
    const gone = lost
        .filter((one) => one.to >= left && one.from <= right)
        .map((one) => ({
            from: Math.max(left, one.from),
            to: Math.min(right, Math.max(one.to, one.from + narrowest)),
        }));
    const rows = new Map(kinds.map((kind, at) => [kind, -(at + 0.8) * most * 0.09]));
    const low = -(kinds.length + 0.4) * most * 0.09;
    const marks = events.filter((event) => event.at >= left && event.at <= right);
    return chart({
        width,
        height: 190 + kinds.length * 14,
        marginLeft: 60,
        marginRight: 10,
        marginTop: 24,
        x: { type: "utc", domain: [left, right], label: "stored (UTC)" },
        y: { domain: [low, most], label: "messages" },
        marks: [
            rect(gone, {
                x1: "from",
                x2: "to",
                y1: low,
                y2: most,
                fill: "url(#kind-damaged)",
                className: "gone",
            }),
            rectY(inside, {
                x1: "from",
                x2: "to",
                y: "messages",
                className: "bars",
                title: (bar) => `${time(bar.from)}: ${counted(bar.messages, "message")}`,
            }),
            ruleY([0], { className: "ground" }),
            dot(marks, {
                x: "at",
                y: (event) => rows.get(event.kind),
                r: 4,
                symbol: (event) => SYMBOLS[kinds.indexOf(event.kind) % SYMBOLS.length],
                className: "event",
                title: (event) => `${time(event.at)}: ${event.message}`,
            }),
            axisX({ ticks: Math.max(2, Math.floor(width / 130)), label: "stored (UTC)" }),
            axisY({ ticks: 4, tickFormat: (value) => (value < 0 ? "" : count(value)), label: "messages" }),
        ],
        symbol: { type: "identity" },
    });
}

function listOf(events, kinds, timeline, model, view) {
    const place = (event) => {
        if (!event.file) return "";
        if (event.file.size === 0) return event.file.path;
        const go = (click) => {
            click.preventDefault();
            const at =
                event.physical !== null && event.file.base >= 0
                    ? event.file.start + event.physical - event.file.base
                    : null;
            if (at !== null && at >= event.file.start && at < event.file.end) view.show(at - 64, at + 192);
            else view.show(event.file.start, event.file.end);
            document.getElementById("map-stage").focus();
        };
        return el("a", { href: "#map", class: "place", onclick: go }, event.file.path);
    };
    const rows = table(
        [
            {
                name: "time",
                title: "Time",
                value: (event) => event.at,
                cell: (event) => time(event.at),
                search: false,
            },
            { name: "kind", title: "Kind", value: (event) => event.kind },
            { name: "message", title: "Event", value: (event) => event.message },
            { name: "file", title: "File", value: (event) => event.file?.path ?? "", cell: place },
        ],
        {
            caption: "Events",
            noun: ["event", "events"],
            perPage: 25,
            filters: [
                {
                    title: "Kind",
                    choices: [["all", null], ...kinds.map((kind) => [kind, (event) => event.kind === kind])],
                },
            ],
        },
    );
    rows.setRows(events);
    const more = timeline.event_counts.count - timeline.event_counts.kept_count;
    return el(
        "details",
        {},
        el("summary", {}, "Events as a table"),
        rows.element,
        more > 0 && el("p", {}, `${counted(more, "more event")}: run timeline to see all of them.`),
    );
}

function barTable(bars) {
    const rows = table(
        [
            {
                name: "from",
                title: "From",
                value: (bar) => bar.from,
                cell: (bar) => time(bar.from),
                search: false,
            },
            { name: "to", title: "To", value: (bar) => bar.to, cell: (bar) => time(bar.to), search: false },
            { name: "messages", title: "Messages", value: (bar) => bar.messages, numeric: true },
            {
                name: "bytes",
                title: "Size",
                value: (bar) => bar.bytes,
                cell: (bar) => size(bar.bytes),
                numeric: true,
            },
        ],
        { caption: "Messages in time", noun: ["period", "periods"], searched: false, perPage: 25 },
    );
    rows.setRows(bars);
    return el("details", {}, el("summary", {}, "Messages in time as a table"), rows.element);
}

function lostTable(lost, model, view) {
    if (lost.length === 0) return null;
    const place = (row) => (row.file ? `${row.file.path}, byte ${row.start}` : "");
    const go = (row) => (event) => {
        event.preventDefault();
        const at = row.file.start + row.start;
        view.show(at - 32, at + Math.max(64, row.bytes) + 32);
        document.getElementById("map-stage").focus();
    };
    const rows = table(
        [
            {
                name: "from",
                title: "From",
                value: (row) => row.from,
                cell: (row) => time(row.from),
                search: false,
            },
            { name: "to", title: "To", value: (row) => row.to, cell: (row) => time(row.to), search: false },
            {
                name: "bytes",
                title: "Damaged",
                value: (row) => row.bytes,
                cell: (row) => size(row.bytes),
                numeric: true,
            },
            {
                name: "place",
                title: "Place",
                value: place,
                cell: (row) =>
                    row.file?.size > 0
                        ? el("a", { href: "#map", class: "place", onclick: go(row) }, place(row))
                        : place(row),
            },
        ],
        { caption: "Damage in time", noun: ["period", "periods"], searched: false, perPage: 25 },
    );
    rows.setRows(lost);
    return el("details", {}, el("summary", {}, "Damage in time as a table"), rows.element);
}
