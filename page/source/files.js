// The list of files: each a strip of its regions, a page of files at a time.
import { rect } from "@observablehq/plot";
import { chart } from "./charts.js";
import { count, counted, el, fill, framed, share, size, time } from "./dom.js";
import { cut, firstAfter } from "./spans.js";
import { table } from "./tables.js";

const STRIP = 320;

/** The section with a row for each file. */
export function filesSection(model, view) {
    let common = false;
    const largest = model.ordered.reduce((most, file) => Math.max(most, file.size), 1);
    const families = model.areas.map((area) => [area.title, (file) => file.family === area.family]);
    const strip = (file) => {
        const open = () => {
            if (file.size === 0) return;
            view.show(file.start, file.end);
            const stage = document.getElementById("map-stage");
            stage.scrollIntoView({ block: "center" });
            stage.focus({ preventScroll: true });
        };
        if (file.size === 0) return "empty";
        const button = el("button", {
            type: "button",
            class: "strip",
            "aria-label": `${file.path}: ${contentOf(model, file)}. Show on the map`,
            onclick: open,
        });
        button.append(stripOf(model, file, common ? file.size / largest : 1));
        return button;
    };
    const rows = table(
        [
            {
                name: "path",
                title: "File",
                value: (file) =>
                    file.fileCount > 1 ? `${file.path} (${counted(file.fileCount, "file")})` : file.path,
            },
            { name: "strip", title: "Content", value: () => "", cell: strip, sort: false, search: false },
            {
                name: "size",
                title: "Size",
                value: (file) => file.size,
                cell: (file) => size(file.size),
                numeric: true,
            },
            { name: "records", title: "Records", value: (file) => file.records, numeric: true },
            { name: "findings", title: "Findings", value: (file) => file.findings, numeric: true },
            { name: "first", title: "First message", value: (file) => time(file.firstTime) },
            { name: "last", title: "Last message", value: (file) => time(file.lastTime) },
        ],
        {
            caption: "Files",
            noun: ["file", "files"],
            perPage: 40,
            filters: [
                { title: "Part", choices: [["all", null], ...families] },
                {
                    title: "Show",
                    choices: [
                        ["all", null],
                        ["files with findings", (file) => file.findings > 0],
                    ],
                },
            ],
            drawn: (_, body) => rove(body),
        },
    );
    rows.setRows([...model.ordered]);
    const scale = el("input", { type: "checkbox" });
    const redraw = framed(() => rows.setRows([...model.ordered]));
    scale.addEventListener("change", () => {
        common = scale.checked;
        redraw();
    });
    return el(
        "section",
        { id: "files", "aria-labelledby": "files-title" },
        el("h2", { id: "files-title" }, "Files"),
        el(
            "p",
            {},
            `${count(model.ordered.reduce((sum, file) => sum + file.fileCount, 0))} files. Up and Down move between strips, Enter shows a file on the map.`,
        ),
        el("div", { class: "tools" }, el("label", {}, scale, " Same scale for all files")),
        rows.element,
    );
}

function stripOf(model, file, part) {
    const columns = 120;
    const parts = cut(model.spans, file.start, file.end, columns, model.ranks);
    const width = Math.max(4, Math.round(STRIP * part));
    return chart({
        width,
        height: 18,
        margin: 0,
        x: { axis: null, domain: [0, file.size] },
        y: { axis: null, domain: [0, 1] },
        marks: [
            rect(parts, {
                x1: (one) => one.start - file.start,
                x2: (one) => one.end - file.start,
                y1: (one) => 1 - one.low,
                y2: (one) => 1 - one.high,
                fill: (one) => `url(#kind-${model.kinds[one.kind].id})`,
                className: "parts",
            }),
            rect([0], { x1: 0, x2: file.size, y1: 0, y2: 1, inset: 0.5, className: "frame" }),
        ],
    });
}

function contentOf(model, file) {
    const bytes = new Map();
    const { starts, ends, kinds } = model.spans;
    for (let at = firstAfter(ends, file.start); at < starts.length && starts[at] < file.end; at += 1) {
        bytes.set(kinds[at], (bytes.get(kinds[at]) ?? 0) + ends[at] - starts[at]);
    }
    const parts = [...bytes].sort((one, other) => other[1] - one[1]);
    const words = parts
        .map(([kind, amount]) => `${model.kinds[kind].title} ${share(amount, file.size)}`)
        .join(", ");
    return file.findings > 0 ? `${words}; ${counted(file.findings, "finding")}` : words;
}

/** Up and Down move between the strips of a page; only one of them is a stop of Tab. */
function rove(body) {
    const strips = [...body.querySelectorAll("button.strip")];
    strips.forEach((strip, at) => {
        strip.tabIndex = at === 0 ? 0 : -1;
        strip.addEventListener("keydown", (event) => {
            const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: strips.length - 1 }[event.key];
            if (to === undefined || !strips[to]) return;
            event.preventDefault();
            strips.forEach((one) => (one.tabIndex = -1));
            strips[to].tabIndex = 0;
            strips[to].focus();
        });
    });
}

/** Exact damage of the commit log, each with its place on the map. */
export function damageSection(model, view) {
    if (model.damage.length === 0) return null;
    const show = (row) => (event) => {
        event.preventDefault();
        const wide = Math.max(32, row.end - row.start);
        view.show(row.file.start + row.start - wide, row.file.start + row.end + wide);
        const stage = document.getElementById("map-stage");
        stage.scrollIntoView({ block: "center" });
        stage.focus({ preventScroll: true });
    };
    const place = (row) => `${row.file.path}, bytes ${row.start} to ${row.end}`;
    const rows = table(
        [
            {
                name: "place",
                title: "Place",
                value: place,
                cell: (row) => el("a", { href: "#map", class: "place", onclick: show(row) }, place(row)),
            },
            { name: "kind", title: "Kind", value: (row) => row.kind.title },
            {
                name: "size",
                title: "Size",
                value: (row) => row.end - row.start,
                cell: (row) => size(row.end - row.start),
                numeric: true,
            },
        ],
        { caption: "Damage in the commit log", noun: ["region", "regions"], perPage: 25 },
    );
    rows.setRows(model.damage);
    const { count: all, kept_count: kept } = model.page.map.damage_counts;
    const section = el(
        "section",
        { id: "damage", "aria-labelledby": "damage-title" },
        el("h2", { id: "damage-title" }, "Damage"),
        rows.element,
    );
    if (all > kept) section.append(fill(el("p"), `${count(all - kept)} more regions are on the map only.`));
    return section;
}
