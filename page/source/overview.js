// The top of the page: how many messages consumers get now, after a start and after the repair, and a strip of
// bytes for each part of the store, with its own scale.
import { count, counted, el, fill, onWidth, share, size, svg } from "./dom.js";
import { rankOf } from "./lanes.js";
import { firstAfter, gathered, mergedSpans, shares } from "./spans.js";

const BAR = 24;
const MARK = 12;

/** Parts of a store that are shown only where something is found in them. */
const PLAIN = new Set(["config", "other"]);
/** Fates of messages from the best to the worst: a member of the counts, a word, a tone. */
const FATES = [
    ["served_count", "consumed as sent", "data"],
    ["replaced_count", "replaced by a repair", "none"],
    ["damaged_count", "damaged", "worn"],
    ["unreached_count", "cannot be consumed", "worn"],
    ["perhaps_lost_count", "perhaps lost", "bad"],
    ["lost_count", "lost", "bad"],
];

/** Three tiles: the messages that consumers get, in three states of the store; null where nobody counted. */
export function tiles(page) {
    const outlook = page.verdict?.messages;
    if (!outlook) return null;
    const starts = outlook.after_starts ?? [];
    const got = (fates) => fates.served_count + fates.damaged_count;
    const worst = [...starts].sort((one, other) => got(one.messages) - got(other.messages))[0];
    const alike = starts.filter((one) => same(one.messages, worst.messages));
    return el(
        "ul",
        { class: "tiles", "aria-label": "Messages that consumers get" },
        tile("Now", outlook.now),
        worst
            ? tile(`After a start${alike.length < starts.length ? ` of ${versionsOf(alike)}` : ""}`, worst.messages)
            : missing("After a start", startSaid(page)),
        outlook.after_plan
            ? tile("After the repair", outlook.after_plan)
            : missing("After the repair", "no repair is planned"),
    );
}

/** What is known of starts for which nobody counted messages. */
function startSaid(page) {
    if ((page.verdict.starts ?? []).some((start) => start.covered && !start.loads)) return "a broker does not start";
    return ["healthy", "unclean"].includes(page.state) ? "as now: a start loses nothing" : "not predicted";
}

const same = (one, other) => FATES.every(([name]) => one[name] === other[name]);

/** The versions of starts, which are in order, as a range. */
function versionsOf(starts) {
    const versions = starts.flatMap((start) => (start.alike.length > 0 ? start.alike : [start.version]));
    const [first, last] = [versions[0], versions[versions.length - 1]];
    return first === last ? first : `${first} to ${last}`;
}

function tile(title, fates) {
    const total = FATES.reduce((sum, [name]) => sum + (fates[name] ?? 0), 0);
    const got = fates.served_count + fates.damaged_count;
    const rest = FATES.slice(1).filter(([name]) => fates[name] > 0);
    return el(
        "li",
        { class: "tile" },
        el("h3", {}, title),
        el("p", { class: "big" }, count(got), " ", el("span", {}, `of ${counted(total, "message")}`)),
        bar(fates, total),
        el(
            "ul",
            {},
            rest.map(([name, text]) => el("li", {}, `${count(fates[name])} ${text}`)),
        ),
    );
}

const missing = (title, why) => el("li", { class: "tile" }, el("h3", {}, title), el("p", {}, why));

function bar(fates, total) {
    const made = svg("svg", { class: "fates", viewBox: "0 0 100 4", preserveAspectRatio: "none" });
    made.setAttribute("aria-hidden", "true");
    let x = 0;
    for (const [name, , tone] of FATES) {
        const width = total > 0 ? (100 * (fates[name] ?? 0)) / total : 0;
        if (width > 0) made.append(svg("rect", { x, y: 0, width, height: 4, class: `solid tone-${tone}` }));
        x += width;
    }
    return made;
}

/** A strip for each part of the store. The commit log has the axis of its physical offsets, with holes. */
export function strips(model, view) {
    const parts = model.areas
        .filter((area) => area.end > area.start)
        .map((area) => partOf(model, area))
        .filter((part) => part.marks.length > 0 || !PLAIN.has(part.area.family));
    if (parts.length === 0) return null;
    const go = (part, from, to) => {
        const [first, last] = [part.toLine(from), part.toLine(to)];
        view.show(Math.min(first, last), Math.max(first, last));
        document.getElementById("map-stage")?.focus();
    };
    return el(
        "div",
        { class: "strips" },
        parts.map((part) => strip(model, part, go)),
    );
}

function partOf(model, area) {
    const spans = slice(model.spans, area.start, area.end);
    const wrong = area.family === "commitlog" ? wrongOf(model, spans) : { starts: [], ends: [] };
    const findings = model.findings.filter(
        (finding) => finding.at !== null && !finding.gone && finding.at >= area.start && finding.at < area.end,
    );
    const crowds = model.crowds.filter((crowd) => crowd.start >= area.start && crowd.start < area.end);
    const axis = axisOf(area);
    const part = { area, title: area.title, size: area.end - area.start, ...axis };
    part.spans = moved(spans, part.toAxis);
    part.wrong = moved({ ...wrong, kinds: wrong.starts.map(() => 0) }, part.toAxis);
    part.marks = [
        ...findings.map((finding) => ({
            start: part.toAxis(finding.at),
            end: part.toAxis(finding.to - 1) + 1,
            index: finding.index,
            weight: finding.count,
            rank: rankOf(finding.rule.severity),
        })),
        ...crowds.map((crowd) => ({
            ...crowd,
            start: part.toAxis(crowd.start),
            end: part.toAxis(crowd.end - 1) + 1,
            rank: rankOf(crowd.severity),
        })),
    ];
    return part;
}

/** The axis of an area: that of physical offsets for a commit log that has one, else the line of all bytes. */
function axisOf(area) {
    const own = (place) => place;
    const line = { from: area.start, to: area.end, holes: 0, toAxis: own, toLine: own };
    const files = area.files.filter((file) => file.size > 0);
    return (area.family === "commitlog" && physical(files)) || line;
}

function slice(spans, from, to) {
    const low = firstAfter(spans.ends, from);
    const made = { starts: [], ends: [], kinds: [] };
    for (let at = low; at < spans.starts.length && spans.starts[at] < to; at += 1) {
        made.starts.push(Math.max(from, spans.starts[at]));
        made.ends.push(Math.min(to, spans.ends[at]));
        made.kinds.push(spans.kinds[at]);
    }
    return made;
}

/** Records with errors, which the strip of bytes shows as whole: a wrong checksum does not move a boundary. */
function wrongOf(model, spans) {
    const records = model.kinds.findIndex((kind) => kind.name === "records");
    const places = model.findings
        .filter((one) => one.at !== null && !one.gone && one.rule.severity === "error" && one.end !== null)
        .map((one) => [one.at, one.to]);
    const inside = mergedSpans(places);
    const made = { starts: [], ends: [] };
    for (const [start, end] of inside) {
        let at = firstAfter(spans.ends, start);
        for (; at < spans.starts.length && spans.starts[at] < end; at += 1) {
            if (spans.kinds[at] !== records) continue;
            made.starts.push(Math.max(start, spans.starts[at]));
            made.ends.push(Math.min(end, spans.ends[at]));
        }
    }
    return made;
}

/** The axis of physical offsets of log files: where a place of the line is on it; null where files overlap. */
function physical(files) {
    const known = files.filter((file) => file.base >= 0).sort((one, other) => one.base - other.base);
    if (known.length === 0 || known.length < files.length) return null;
    for (let at = 1; at < known.length; at += 1) {
        if (known[at].base < known[at - 1].base + known[at - 1].size) return null;
    }
    const last = known[known.length - 1];
    const from = known[0].base;
    const to = last.base + last.size;
    const held = known.reduce((sum, file) => sum + file.size, 0);
    const byLine = [...known].sort((one, other) => one.start - other.start);
    return {
        from,
        to,
        holes: to - from - held,
        toAxis: (place) => {
            const file = byLine.find((one) => place < one.end) ?? byLine[byLine.length - 1];
            return file.base + Math.max(0, place - file.start);
        },
        toLine: (offset) => {
            const file = known.find((one) => offset < one.base + one.size);
            return file ? file.start + Math.max(0, offset - file.base) : last.end;
        },
    };
}

function moved(spans, toAxis) {
    const rows = spans.starts.map((start, at) => [
        toAxis(start),
        toAxis(start) + spans.ends[at] - start,
        spans.kinds[at],
    ]);
    rows.sort((one, other) => one[0] - other[0]);
    return {
        starts: Float64Array.from(rows, (row) => row[0]),
        ends: Float64Array.from(rows, (row) => row[1]),
        kinds: Uint8Array.from(rows, (row) => row[2]),
    };
}

function strip(model, part, go) {
    const place = el("div", { class: "strip-canvas" });
    onWidth(place, (width) => fill(place, drawnStrip(model, part, width, go)));
    const facts = [size(part.size)];
    if (part.holes > 0) facts.push(`${size(part.holes)} missing`);
    const bad = badBytes(model, part);
    if (bad > 0) facts.push(`${size(bad)} damaged (${share(bad, part.size)})`);
    const wrong = total(part.wrong);
    if (wrong > 0) facts.push(`${size(wrong)} in records with errors (${share(wrong, part.size)})`);
    return el(
        "div",
        { class: "strip-part" },
        el("p", { class: "strip-title" }, el("strong", {}, part.title), ` ${facts.join(", ")}`),
        place,
    );
}

/** Bytes that belong to no sound record. */
function badBytes(model, { spans }) {
    return total(spans, (at) => model.kinds[spans.kinds[at]].tone === "bad");
}

function total(spans, wanted = () => true) {
    let sum = 0;
    for (let at = 0; at < spans.starts.length; at += 1) if (wanted(at)) sum += spans.ends[at] - spans.starts[at];
    return sum;
}

const TONES = ["bad", "worn", "data", "none", "hole"];

/** A strip as SVG: in each column of a pixel, tones take as much of its height as they have of its bytes. */
function drawnStrip(model, part, width, go) {
    const made = svg("svg", { class: "strip-chart", width, height: MARK + BAR, role: "group" });
    made.setAttribute("aria-label", `${part.title}: findings`);
    const columns = Math.max(1, Math.floor(width));
    const span = Math.max(1, part.to - part.from);
    const kinds = model.kinds.length;
    const bytes = shares(part.spans, part.from, part.to, columns, kinds);
    const wrong = shares(part.wrong, part.from, part.to, columns, 1);
    const records = model.kinds.findIndex((kind) => kind.name === "records");
    const paths = Object.fromEntries(TONES.map((tone) => [tone, ""]));
    for (let column = 0; column < columns; column += 1) {
        const sums = { bad: wrong[column], worn: 0, data: 0, none: 0 };
        let held = 0;
        for (let kind = 0; kind < kinds; kind += 1) {
            const found = bytes[column * kinds + kind];
            held += found;
            sums[model.kinds[kind].tone] += kind === records ? Math.max(0, found - wrong[column]) : found;
        }
        sums.hole = Math.max(0, span / columns - held);
        let y = MARK;
        for (const tone of TONES) {
            const high = ((sums[tone] ?? 0) * columns * BAR) / span;
            if (high > 0.001) paths[tone] += `M${column} ${y.toFixed(3)}h1v${high.toFixed(3)}h-1z`;
            y += high;
        }
    }
    for (const tone of TONES) if (paths[tone]) made.append(svg("path", { d: paths[tone], class: `solid tone-${tone}` }));
    made.append(svg("rect", { x: 0.5, y: MARK + 0.5, width: width - 1, height: BAR - 1, class: "edge" }));
    const scale = width / span;
    for (const cell of gathered(part.marks, part.from, part.to, Math.max(4, Math.floor(width / 14)))) {
        made.append(mark(cell, part, (cell.start - part.from) * scale, width));
    }
    made.addEventListener("click", (event) => {
        if (event.target.closest?.("a")) return;
        const x = event.clientX - made.getBoundingClientRect().left;
        const middle = part.from + (x / width) * span;
        go(part, Math.max(part.from, middle - span / 40), Math.min(part.to - 1, middle + span / 40));
    });
    return made;
}

const NAMES = ["note", "warning", "error"];

/** A mark that leads to the worst of its findings. */
function mark(cell, part, x, width) {
    const at = Math.min(Math.max(x, 5), width - 5);
    const text = `${counted(cell.count, "finding")}, the worst: ${NAMES[cell.rank] ?? "note"}`;
    const shape = svg("path", {
        d: `M${(at - 5).toFixed(1)} 1h10l-5 9z`,
        class: `finding ${["info", "warning", "error"][cell.rank] ?? "info"}`,
    });
    const title = svg("title", {});
    title.textContent = text;
    if (!(cell.worst >= 0)) {
        const group = svg("g", {});
        group.append(title, shape);
        return group;
    }
    const link = svg("a", { href: `#finding-${cell.worst}`, "aria-label": `${part.title}: ${text}` });
    link.append(title, shape);
    return link;
}
