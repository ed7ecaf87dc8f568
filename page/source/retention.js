// What retention takes: the files that go, when, and which group loses what by it.
import { count, counted, el, fill, onWidth, size, svg, time, titled } from "./dom.js";
import { FATES } from "./model.js";
import { sample } from "./patterns.js";
import { table } from "./tables.js";
import { reasons } from "./timeline.js";

const BAR = 24;
const [KEPT, NEXT, LATER] = FATES;

/** The section, as the store is; nothing after the plan, for which nobody foresaw it. */
export function retentionSection(model) {
    if (model.after) return null;
    const found = model.page.retention;
    const section = el(
        "section",
        { id: "retention", "aria-labelledby": "retention-title" },
        el("h2", { id: "retention-title" }, "What retention takes"),
    );
    if (!found) return (section.append(...reasons(model, "retention")), section);
    const steps = stepsOf(found);
    if (steps.length === 0) return (section.append(el("p", {}, "The commit log has no file.")), section);
    const place = el("div", { class: "strip-canvas" });
    onWidth(place, (width) => fill(place, drawn(steps, width)));
    section.append(
        el("p", {}, rule(found)),
        el("p", {}, inShort(found, steps)),
        place,
        el(
            "ul",
            { class: "legend", "aria-label": "Patterns of what retention takes" },
            legend(steps).map(([fate, title]) => el("li", {}, sample(fate), " ", title)),
        ),
        losses(found, model.page.position_counts),
        stepTable(found, steps),
    );
    return section;
}

function stepsOf({ steps }) {
    const rows = steps.start_offset.map((start, row) => ({
        start,
        end: steps.end_offset[row],
        files: steps.file_count[row],
        bytes: steps.byte_count[row],
        at: steps.delete_timestamp[row],
        goes: steps.is_deleted[row],
    }));
    const first = rows.find((row) => row.at !== null);
    return rows.map((row) => ({ ...row, fate: row.at === null ? KEPT : row.at === first.at ? NEXT : LATER }));
}

function rule({ reserved_hours: hours, delete_hours: when, time_zone: zone, now_timestamp: now }) {
    const listed = when.map((hour) => `${String(hour).padStart(2, "0")}:00`).join(", ");
    const kept = `A broker deletes commit log files that nobody has written to for ${counted(hours, "hour")} (fileReservedTime), consumed or not`;
    return listed === ""
        ? `${kept}; deleteWhen names no hour of the day, so that it deletes by disk space only.`
        : `${kept}, from ${listed} on (deleteWhen, here in ${zone}: a broker goes by its own time zone). Foreseen from ${time(now)} on.`;
}

function inShort({ growth_per_day: growth }, steps) {
    const next = steps.filter((step) => step.fate === NEXT);
    const grows = growth === null ? "" : ` The commit log grows by ${size(growth)} a day.`;
    if (next.length === 0) return `No file goes by its age.${grows}`;
    const files = next.reduce((sum, step) => sum + step.files, 0);
    const bytes = next.reduce((sum, step) => sum + step.bytes, 0);
    const end = next[next.length - 1].end;
    return `Next ${files === 1 ? "goes" : "go"} ${counted(files, "file")} (${size(bytes)}) at ${time(next[0].at)}: all in front of physical offset ${end}.${grows}`;
}

function legend(steps) {
    const next = steps.find((step) => step.fate === NEXT);
    return [
        next && [NEXT, `goes next, ${time(next.at)}`],
        steps.some((step) => step.fate === LATER) && [LATER, "goes later"],
        steps.some((step) => step.fate === KEPT) && [KEPT, "stays"],
    ].filter(Boolean);
}

/** The commit log on the axis of its physical offsets, with the times at which files go. */
function drawn(steps, width) {
    const from = steps[0].start;
    const to = Math.max(steps[steps.length - 1].end, from + 1);
    const x = (offset) => ((offset - from) / (to - from)) * width;
    const made = svg("svg", { class: "chart retention-chart", width, height: BAR + 16, "aria-hidden": "true" });
    let free = -Infinity;
    for (const step of steps) {
        const [left, right] = [x(step.start), x(step.end)];
        const box = svg("rect", { x: left, y: 15, width: Math.max(0, right - left), height: BAR, class: "part" });
        box.setAttribute("fill", `url(#kind-${step.fate.id})`);
        made.append(titled(box, `${counted(step.files, "file")}, ${size(step.bytes)}: ${whenOf(step)}`));
        const words = step.at === null ? whenOf(step) : time(step.at).slice(0, 16);
        if (left < free || right - left < words.length * 7) continue;
        const text = svg("text", { x: left + 1, y: 11 });
        text.textContent = words;
        made.append(text);
        free = left + words.length * 7;
    }
    return made;
}

const whenOf = (step) => (step.at !== null ? time(step.at) : step.goes ? "never by age" : "stays");

function losses(found, positions) {
    if (found.problem) return el("p", {}, `What groups lose is not known: ${found.problem}.`);
    const { unconsumed, unconsumed_counts: counts } = found;
    const listed = unconsumed.group.map((group, row) => ({
        group,
        topic: unconsumed.topic[row],
        messages: unconsumed.message_count[row],
        at: unconsumed.delete_timestamp[row],
    }));
    if (listed.length === 0 && positions.count === 0)
        return el("p", {}, "No group has a committed offset in this store: what groups lose is not known.");
    if (listed.length === 0)
        return el("p", {}, "No group with a committed offset loses a message by it that it has not consumed.");
    const rows = table(
        [
            { name: "group", title: "Consumer group", value: (row) => row.group },
            { name: "topic", title: "Topic", value: (row) => row.topic },
            { name: "messages", title: "Messages", value: (row) => row.messages, numeric: true, bar: true },
            {
                name: "at",
                title: "The first go",
                value: (row) => row.at,
                cell: (row) => (row.at === null ? "never by age" : time(row.at)),
                search: false,
            },
        ],
        { caption: "Deleted before they are consumed", noun: ["row", "rows"], perPage: 10 },
    );
    rows.setRows(listed);
    const more = counts.count - counts.kept_count;
    return el("div", {}, rows.element, more > 0 && el("p", {}, `${counted(more, "more row is", "more rows are")} left out: groups that lose later.`));
}

function stepTable(found, steps) {
    const rows = table(
        [
            { name: "at", title: "When", value: (step) => step.at, cell: whenOf, search: false },
            { name: "files", title: "Files", value: (step) => step.files, numeric: true },
            {
                name: "bytes",
                title: "Size",
                value: (step) => step.bytes,
                cell: (step) => size(step.bytes),
                numeric: true,
            },
            { name: "start", title: "From offset", value: (step) => step.start, cell: (step) => String(step.start) },
            { name: "end", title: "To offset", value: (step) => step.end, cell: (step) => String(step.end) },
        ],
        { caption: "Commit log files that go", noun: ["time", "times"], searched: false, perPage: 10 },
    );
    rows.setRows(steps);
    const more = found.step_counts.count - found.step_counts.kept_count;
    return el(
        "details",
        {},
        el("summary", {}, "When files go, as a table"),
        rows.element,
        more > 0 && el("p", {}, `${count(more)} later times are left out.`),
    );
}
