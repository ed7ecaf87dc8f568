// Messages over time by topic: a lane for each of the largest topics, all with the scales of time and of number that
// the others have.
import { axisX, rect, rectY, ruleY, text } from "@observablehq/plot";
import { chart } from "./charts.js";
import { count, counted, el, fill, onWidth, shown, time } from "./dom.js";
import { table } from "./tables.js";

const LANE = 30;
const LABEL = 16;
const UNITS = [
    [86_400_000, "day"],
    [3_600_000, "hour"],
    [60_000, "minute"],
    [1000, "second"],
];

/** The chart with what it does not show, and its table; nothing where no message has a time. */
export function topicTimes(model, timeline, lost, domain) {
    const { topics } = timeline;
    const lanes = lanesOf(model.page.topics.topic, topics);
    if (lanes.length === 0) return null;
    const gone = [...lost, ...holesOf(model.ordered)];
    const most = lanes.reduce((top, lane) => Math.max(top, ...lane.bars.map((bar) => bar.messages)), 1);
    const place = el("div", { class: "canvas still" });
    onWidth(place, (width) => fill(place, drawn(lanes, gone, most, domain, width)));
    return el(
        "div",
        { class: "topic-times" },
        el("h3", {}, "Messages over time by topic"),
        el(
            "p",
            {},
            `Each column stands for ${lengthOf(topics.step_ms)}; the highest, of all lanes, is ${counted(most, "message")}.`,
        ),
        place,
        notes(timeline, gone).map((note) => el("p", {}, note)),
        tableOf(lanes),
    );
}

function lanesOf(names, { rows, first_timestamp: first, step_ms: step }) {
    const lanes = new Map();
    rows.topic.forEach((topic, row) => {
        const lane = lanes.get(topic) ?? { topic, title: shown(names[topic] ?? "all other topics"), bars: [], sum: 0 };
        const from = first + rows.bucket[row] * step;
        lane.bars.push({ from, to: from + step, messages: rows.message_count[row], title: lane.title });
        lane.sum += rows.message_count[row];
        lanes.set(topic, lane);
    });
    const last = (lane) => (lane.topic < 0 ? 1 : 0);
    return [...lanes.values()].sort((one, other) => last(one) - last(other) || other.sum - one.sum);
}

/** Times of which the commit log has no file any more, between the messages around them. */
function holesOf(files) {
    const logs = files
        .filter((file) => file.family === "commitlog" && file.base >= 0 && file.size > 0)
        .sort((one, other) => one.base - other.base);
    const made = [];
    for (let at = 1; at < logs.length; at += 1) {
        const [before, behind] = [logs[at - 1], logs[at]];
        const known = before.lastTime !== null && behind.firstTime !== null;
        if (known && before.base + before.size < behind.base)
            made.push({ from: before.lastTime, to: Math.max(before.lastTime, behind.firstTime) });
    }
    return made;
}

/** What the lanes leave out, in words. */
function notes({ topics }, gone) {
    const said = [];
    if (gone.length > 0)
        said.push("Hatched: the commit log is damaged there, or a file is missing, and what it held there is not counted.");
    if (topics.unread_file_count > 0)
        said.push(`${counted(topics.unread_file_count, "commit log file")} could not be read: the messages there are not counted.`);
    if (topics.undated_count > 0)
        said.push(`${counted(topics.undated_count, "message")} with a time that is not a date: in no lane.`);
    if (topics.mixed_count > topics.undated_count)
        said.push(`Of these topics, ${counted(topics.mixed_count, "message")} at most are in the lane of all others.`);
    return said;
}

function lengthOf(ms) {
    const [unit, name] = UNITS.find(([length]) => ms >= 2 * length) ?? UNITS[UNITS.length - 1];
    return counted(Number((ms / unit).toFixed(1)), name);
}

function drawn(lanes, lost, most, [left, right], width) {
    const high = LANE + LABEL;
    const height = lanes.length * high + 42;
    const ground = (at) => at * high + high - 2;
    const inside = (rows) =>
        rows
            .filter((row) => row.to > left && row.from < right)
            .map((row) => ({ ...row, from: Math.max(left, row.from), to: Math.min(right, row.to) }));
    const narrowest = (right - left) / Math.max(50, width / 3);
    const gone = inside(lost.map((one) => ({ ...one, to: Math.max(one.to, one.from + narrowest) })));
    const marks = [
        rect(gone, { x1: "from", x2: "to", y1: 0, y2: height - 42, fill: "url(#kind-damaged)", className: "gone" }),
    ];
    lanes.forEach((lane, at) => {
        // A column is at least a pixel high: one message next to a million is not the same as none.
        const top = (bar) => ground(at) - Math.max(1, (bar.messages / most) * (LANE - 2));
        marks.push(
            rectY(inside(lane.bars), {
                x1: "from",
                x2: "to",
                y1: ground(at),
                y2: top,
                className: "bars",
                title: (bar) => `${bar.title}, ${time(bar.from)}: ${counted(bar.messages, "message")}`,
            }),
            ruleY([ground(at)], { className: "ground" }),
            text([`${lane.title} (${count(lane.sum)})`], {
                x: left,
                y: at * high + LABEL - 4,
                text: (title) => shortened(title, width),
                textAnchor: "start",
                lineAnchor: "bottom",
                className: "lane",
            }),
        );
    });
    marks.push(axisX({ ticks: Math.max(2, Math.floor(width / 130)), label: "stored (UTC)" }));
    return chart({
        width,
        height,
        marginLeft: 60,
        marginRight: 10,
        marginTop: 0,
        marginBottom: 36,
        x: { type: "utc", domain: [left, right] },
        y: { axis: null, domain: [0, height - 36], range: [0, height - 36] },
        marks,
    });
}

function shortened(title, width) {
    const room = Math.max(12, Math.floor((width - 70) / 7));
    return title.length <= room ? title : `${title.slice(0, room - 1)}\u2026`;
}

function tableOf(lanes) {
    const rows = table(
        [
            { name: "topic", title: "Topic", value: (bar) => bar.title },
            { name: "from", title: "From", value: (bar) => bar.from, cell: (bar) => time(bar.from), search: false },
            { name: "to", title: "To", value: (bar) => bar.to, cell: (bar) => time(bar.to), search: false },
            { name: "messages", title: "Messages", value: (bar) => bar.messages, numeric: true },
        ],
        { caption: "Messages over time by topic", noun: ["row", "rows"], perPage: 25 },
    );
    rows.setRows(lanes.flatMap((lane) => lane.bars));
    return el("details", {}, el("summary", {}, "Messages over time by topic as a table"), rows.element);
}
