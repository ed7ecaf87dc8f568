// Topics and queues: ranges, gaps, lag of consumer groups.
import { rect } from "@observablehq/plot";
import { chart } from "./charts.js";
import { counted, el, size, time } from "./dom.js";
import { table } from "./tables.js";
import { reasons } from "./timeline.js";

/** The section of topics, queues and consumer groups. */
export function queuesSection(model) {
    const { topics, queues, positions, groups, position_counts: counts } = model.page;
    const queueRows = queues.topic.map((topic, row) => ({
        topic: topics.topic[topic] ?? "",
        queue: queues.queue_id[row],
        min: queues.min_offset[row],
        max: queues.max_offset[row],
        logMin: queues.log_min_offset[row],
        logMax: queues.log_max_offset[row],
        messages: queues.message_count[row],
        gaps: queues.gap_count[row],
        findings: queues.finding_count[row],
        lag: queues.lag[row],
    }));
    const section = el(
        "section",
        { id: "queues", "aria-labelledby": "queues-title" },
        el("h2", { id: "queues-title" }, "Topics and queues"),
    );
    if (queueRows.length === 0 && topics.topic.length === 0)
        return (section.append(...reasons(model, "queues")), section);
    section.append(
        el("p", {}, `${counted(topics.topic.length, "topic")}, ${counted(queueRows.length, "queue")}.`),
        topicTable(topics),
        queueTable(queueRows),
    );
    if (positions) section.append(groupTable(positions, groups, queueRows, counts));
    else
        section.append(
            ...reasons(model, "positions").map((reason) =>
                el("div", {}, el("h3", {}, "Consumer groups"), reason),
            ),
        );
    return section;
}

function topicTable(topics) {
    const rows = table(
        [
            { name: "topic", title: "Topic", value: (row) => row.topic },
            { name: "queues", title: "Queues", value: (row) => row.queues, numeric: true },
            { name: "messages", title: "Messages", value: (row) => row.messages, numeric: true },
            {
                name: "bytes",
                title: "Size",
                value: (row) => row.bytes,
                cell: (row) => size(row.bytes),
                numeric: true,
                bar: true,
            },
            { name: "first", title: "First message", value: (row) => time(row.first) },
            { name: "last", title: "Last message", value: (row) => time(row.last) },
        ],
        { caption: "Topics", noun: ["topic", "topics"], perPage: 20 },
    );
    rows.setRows(
        topics.topic.map((topic, row) => ({
            topic,
            queues: topics.queue_count[row],
            messages: topics.message_count[row],
            bytes: topics.byte_count[row],
            first: topics.first_timestamp[row],
            last: topics.last_timestamp[row],
        })),
    );
    return rows.element;
}

function queueTable(queueRows) {
    const widest = queueRows.reduce((most, row) => Math.max(most, extent(row)[1] - extent(row)[0]), 1);
    const rows = table(
        [
            { name: "topic", title: "Topic", value: (row) => row.topic },
            {
                name: "queue",
                title: "Queue",
                value: (row) => row.queue,
                cell: (row) => String(row.queue),
                numeric: true,
            },
            {
                name: "min",
                title: "First offset",
                value: (row) => row.min,
                cell: (row) => plain(row.min),
                numeric: true,
            },
            {
                name: "max",
                title: "End offset",
                value: (row) => row.max,
                cell: (row) => plain(row.max),
                numeric: true,
            },
            {
                name: "range",
                title: "Units and records",
                value: () => "",
                cell: (row) => rangeOf(row, widest),
                sort: false,
                search: false,
            },
            { name: "messages", title: "Messages", value: (row) => row.messages, numeric: true },
            { name: "gaps", title: "Gaps", value: (row) => row.gaps, numeric: true },
            { name: "findings", title: "Findings", value: (row) => row.findings, numeric: true },
            { name: "lag", title: "Largest lag", value: (row) => row.lag, numeric: true, bar: true },
        ],
        {
            caption: "Queues",
            noun: ["queue", "queues"],
            filters: [
                {
                    title: "Show",
                    choices: [
                        ["all", null],
                        ["queues with gaps", (row) => row.gaps > 0],
                        ["queues with findings", (row) => row.findings > 0],
                        ["queues with lag", (row) => row.lag > 0],
                    ],
                },
            ],
        },
    );
    rows.setRows(queueRows);
    return rows.element;
}

const plain = (number) => (number === null ? "none" : String(number));

/** The queue offsets between which a queue has units or records; 0 and 0 for none. */
function extent(row) {
    const ends = [row.min, row.max, row.logMin, row.logMax].filter((one) => one !== null);
    return ends.length > 0 ? [Math.min(...ends), Math.max(...ends)] : [0, 0];
}

/** Two bars: the queue offsets of the units above those of the records; all queues have the scale of the `widest`. */
function rangeOf(row, widest) {
    if (row.min === null && row.logMin === null) return "";
    const [low] = extent(row);
    const parts = [];
    if (row.min !== null) parts.push({ from: row.min, to: row.max, top: 1, bottom: 0.56, kind: "units" });
    if (row.logMin !== null)
        parts.push({ from: row.logMin, to: row.logMax, top: 0.44, bottom: 0, kind: "records" });
    const svg = chart({
        width: 120,
        height: 16,
        margin: 0,
        x: { axis: null, domain: [low, low + widest] },
        y: { axis: null, domain: [0, 1] },
        marks: [
            rect(parts, {
                x1: "from",
                x2: "to",
                y1: "bottom",
                y2: "top",
                fill: (part) => `url(#kind-${part.kind})`,
                className: "parts",
            }),
        ],
    });
    const text = `units ${span(row.min, row.max)}, records ${span(row.logMin, row.logMax)}`;
    return el("span", { class: "range", title: text }, svg, el("span", { class: "heard" }, text));
}

const span = (from, to) => (from === null ? "none" : `${from} to ${to}`);

/** The lag of each group over all its queues. */
function lagTable(listed) {
    const sums = new Map();
    for (const { group, lag } of listed) {
        const sum = sums.get(group) ?? { group, queues: 0, lag: 0 };
        sum.queues += 1;
        sum.lag += Math.max(0, lag ?? 0);
        sums.set(group, sum);
    }
    if (sums.size < 2) return null;
    const rows = table(
        [
            { name: "group", title: "Consumer group", value: (row) => row.group },
            { name: "queues", title: "Queues", value: (row) => row.queues, numeric: true },
            { name: "lag", title: "Lag of all queues", value: (row) => row.lag, numeric: true, bar: true },
        ],
        { caption: "Lag by group", noun: ["group", "groups"], perPage: 10, sorted: ["lag", true] },
    );
    rows.setRows([...sums.values()]);
    return rows.element;
}

function groupTable(positions, groups, queueRows, counts) {
    const rows = table(
        [
            { name: "group", title: "Consumer group", value: (row) => row.group },
            { name: "topic", title: "Topic", value: (row) => row.topic },
            {
                name: "queue",
                title: "Queue",
                value: (row) => row.queue,
                cell: (row) => plain(row.queue),
                numeric: true,
            },
            {
                name: "offset",
                title: "Next offset",
                value: (row) => row.offset,
                cell: (row) => String(row.offset),
                numeric: true,
            },
            { name: "lag", title: "Lag", value: (row) => row.lag, numeric: true, bar: true },
        ],
        {
            caption: "Consumer groups",
            noun: ["row", "rows"],
            perPage: 25,
            sorted: ["lag", true],
            filters: [
                {
                    title: "Show",
                    choices: [
                        ["all", null],
                        ["with lag", (row) => row.lag > 0],
                        ["beyond the end of the queue", (row) => row.lag < 0],
                    ],
                },
            ],
        },
    );
    const listed = positions.group.map((group, row) => {
        const queue = queueRows[positions.queue[row]];
        return {
            group: groups[group] ?? "",
            topic: queue?.topic ?? "",
            queue: queue?.queue ?? null,
            offset: positions.offset[row],
            lag: positions.lag[row],
        };
    });
    rows.setRows(listed);
    const more = counts.count - counts.kept_count;
    return el(
        "div",
        {},
        lagTable(listed),
        rows.element,
        more > 0 && el("p", {}, `${counted(more, "more position")} with less lag are left out.`),
    );
}
