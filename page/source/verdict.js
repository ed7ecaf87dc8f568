// The verdict on top, and what the plan would leave of it.
import { hasPlan } from "./after.js";
import { count, counted, el, fill, size, time } from "./dom.js";
import { strips, tiles } from "./overview.js";

const MARKS = {
    healthy: "✓",
    unclean: "✓",
    lost: "✗",
    unread: "?",
    damaged: "!",
    interrupted: "✗",
    harmful: "✗",
    refused: "✗",
    running: "…",
    partial: "?",
    unknown: "?",
};

/** The lines of `check` as pairs: a label and the lines that belong to it. */
export function labelled(lines) {
    const pairs = [];
    for (const line of lines) {
        const label = line.slice(0, 10).trim();
        const text = line.slice(10).trim();
        if (label === "" && pairs.length > 0) pairs[pairs.length - 1][1].push(text);
        else if (/^ {2}\S/.test(line) && text !== "" && line[9] === " ") pairs.push([label, [text]]);
        else pairs.push(["", [line.trim()]]);
    }
    return pairs.filter(([, texts]) => texts.some((text) => text !== ""));
}

/** The section with the verdict, as `check` prints it, and the numbers before and after the plan. */
export function verdictSection(model, view, side) {
    const { page } = model;
    const worst = ["error", "warning"].find((severity) =>
        page.findings.rules.some((rule) => rule.severity === severity),
    );
    const mark = MARKS[page.state] ?? (worst ? "✗" : "✓");
    const first = page.lines.findIndex((line) => !/^\S/.test(line)); // a long headline has several lines
    const pairs = labelled(first < 0 ? [] : page.lines.slice(first));
    const element = el(
        "section",
        { id: "verdict", class: worst ? `verdict ${worst}` : "verdict", "aria-labelledby": "verdict-title" },
        el(
            "h2",
            { id: "verdict-title" },
            el("span", { class: "mark", "aria-hidden": "true" }, mark, " "),
            page.headline,
        ),
        nextCommand(pairs),
        tiles(page),
        strips(model, view),
        diagnoses(page),
        el(
            "dl",
            { class: "lines" },
            pairs.filter(([label]) => label !== NEXT).map(([label, texts]) =>
                el(
                    "div",
                    {},
                    el("dt", {}, label),
                    el(
                        "dd",
                        {},
                        texts.map((text) => el("span", {}, text)),
                    ),
                ),
            ),
        ),
        page.not_checked_counts.count > 0 && el("p", {}, page.coverage),
        leftOut(page),
    );
    if (page.plan?.obstacle)
        element.append(el("h3", {}, "What if"), el("p", {}, `There is no plan: ${page.plan.obstacle}.`));
    else if (hasPlan(page)) element.append(numbers(page.plan, side));
    return element;
}

const NEXT = "Next";

/** What to type now, in front of all that explains it. */
function nextCommand(pairs) {
    const texts = pairs.filter(([label]) => label === NEXT).flatMap(([, found]) => found);
    return texts.length > 0 && el("p", { class: "next" }, `${NEXT}: `, texts.map((text) => el("code", {}, text)));
}

function leftOut(page) {
    const parts = [...page.not_checked, ...page.left_out];
    if (parts.length === 0) return null;
    const more = page.not_checked_counts.count - page.not_checked_counts.kept_count;
    return el(
        "details",
        {},
        el("summary", {}, "What this page does not cover"),
        el(
            "ul",
            {},
            parts.map((part) => el("li", {}, `${part.what}: ${part.reason}`)),
            more > 0 && el("li", {}, `${counted(more, "more file")}`),
        ),
    );
}

function diagnoses(page) {
    if (page.diagnoses.length === 0) return null;
    const one = (diagnosis) => {
        const commands = [diagnosis.next_command ?? []].flat().filter(Boolean);
        return el(
            "details",
            {},
            el(
                "summary",
                {},
                el("span", { class: `badge ${diagnosis.severity}` }, diagnosis.severity),
                ` ${diagnosis.title}`,
                el("span", { class: "soft" }, ` ${counted(diagnosis.count, "finding")}`),
            ),
            el("p", {}, diagnosis.text),
            commands.map((command) => el("p", {}, el("code", {}, command))),
        );
    };
    return el("div", { class: "diagnoses" }, el("h3", {}, "Diagnoses"), page.diagnoses.map(one));
}

const SUMMARY = [
    ["record_count", "Records", count],
    ["readable_count", "Readable messages", count],
    ["error_count", "Errors", count],
    ["warning_count", "Warnings", count],
    ["damaged_byte_count", "Damaged bytes", size],
];

function numbers(plan, side) {
    const place = el("div", { "aria-live": "polite" });
    const said = (value, form) => (value === null || value === undefined ? "not known" : form(value));
    const rows = SUMMARY.filter(([name]) => plan.before[name] !== null || plan.after[name] !== null);
    const draw = () => {
        const title = (text, after) =>
            el("th", { scope: "col", class: side.after === after ? "number now" : "number" }, text);
        const cell = (text, after) =>
            el("td", { class: side.after === after ? "number now" : "number" }, text);
        fill(
            place,
            el(
                "table",
                { class: "small" },
                el("caption", {}, "The store before and after the plan"),
                el(
                    "thead",
                    {},
                    el(
                        "tr",
                        {},
                        el("th", { scope: "col" }, "Number"),
                        title("As it is", false),
                        title("After the plan", true),
                    ),
                ),
                el(
                    "tbody",
                    {},
                    rows.map(([name, text, form]) =>
                        el(
                            "tr",
                            {},
                            el("th", { scope: "row" }, text),
                            cell(said(plan.before[name], form), false),
                            cell(said(plan.after[name], form), true),
                        ),
                    ),
                ),
            ),
            side.after ? plan.notices.map((notice) => el("p", {}, notice)) : null,
        );
    };
    side.onChange(draw);
    draw();
    return place;
}

/** Starts that do the same, together. */
function alike(starts) {
    const found = new Map();
    for (const start of starts) {
        const { text, loads, min_offset, cut_offset, cut, hidden, unreadable, files } = start;
        const key = JSON.stringify([text, loads, min_offset, cut_offset, cut, hidden, unreadable, files]);
        const same = found.get(key);
        if (same) same.versions += `, ${start.versions}`;
        else found.set(key, { ...start });
    }
    return [...found.values()];
}

/** What each start does, in sentences; the map shows the same as lanes. */
export function startsSection(model, view) {
    if (model.starts.length === 0) return null;
    const ranges = (title, exact, list) => {
        if (!exact) return null;
        const show = (range) => {
            const logs = model.laid.filter((file) => file.family === "commitlog" && file.base >= 0);
            const file = logs.find(
                (one) => one.base <= range.start_offset && range.start_offset < one.base + one.size,
            );
            const text = `${range.start_offset} to ${range.end_offset}`;
            if (!file) return el("li", {}, text);
            const go = () => {
                const at = file.start + range.start_offset - file.base;
                view.show(at, at + Math.max(32, range.end_offset - range.start_offset));
                document.getElementById("map-stage").focus();
            };
            return el("li", {}, el("button", { type: "button", onclick: go }, text));
        };
        const more = list.length > 20 ? el("li", {}, `${count(list.length - 20)} more ranges`) : null;
        return el(
            "details",
            {},
            el("summary", {}, `${title}: ${counted(exact, "message")}`),
            el("ul", {}, list.slice(0, 20).map(show), more),
        );
    };
    const one = (start) =>
        el(
            "li",
            {},
            el("h3", {}, start.versions),
            el("p", {}, start.text),
            start.loads &&
                start.cut_offset !== null &&
                el(
                    "p",
                    {},
                    `The broker keeps the physical offsets ${start.min_offset ?? 0} to ${start.cut_offset}.`,
                ),
            ranges("Cut", start.cut_count, start.cut),
            ranges("Hidden", start.hidden_count, start.hidden),
            ranges("Without a file", start.unreadable_count, start.unreadable),
            start.files.length > 0 &&
                el(
                    "details",
                    {},
                    el("summary", {}, `Changed: ${counted(start.file_count, "file")}`),
                    el(
                        "ul",
                        {},
                        start.files
                            .slice(0, 100)
                            .map((fate) => el("li", {}, `${fate.file}: ${fate.change}, ${fate.why}`)),
                    ),
                ),
        );
    return el(
        "section",
        { id: "starts", "aria-labelledby": "starts-title" },
        el("h2", { id: "starts-title" }, `What a start does${model.after ? " after the plan" : ""}`),
        el("ul", { class: "cards" }, alike(model.starts).map(one)),
    );
}

/** Who made the page, of what and when. */
export function madeOf(page) {
    const store = page.store?.root ?? page.store?.name ?? "";
    return el(
        "p",
        { class: "made" },
        store && el("span", {}, el("bdi", { class: "own" }, store), ". "),
        `Checked at level ${page.level}, ${time(page.started_timestamp)}, by rocketfsck ${page.tool_version}.`,
    );
}
