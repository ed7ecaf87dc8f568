// The index: chains, slots, and entries that no query finds.
import { axisX, axisY, barY, rect, ruleY } from "@observablehq/plot";
import { chart } from "./charts.js";
import { count, counted, el, fill, onWidth, share, time } from "./dom.js";
import { table } from "./tables.js";
import { reasons } from "./timeline.js";

/** The section of the index files. */
export function indexSection(model, view) {
    const { indexes } = model.page;
    const section = el(
        "section",
        { id: "index", "aria-labelledby": "index-title" },
        el("h2", { id: "index-title" }, "Index"),
    );
    if (!indexes || indexes.file.length === 0) return (section.append(...reasons(model, "indexes")), section);
    const rows = indexes.file.map((file, row) => ({
        file: model.files[file] ?? null,
        slots: indexes.slot_count[row],
        usedSlots: indexes.used_slot_count[row],
        entries: indexes.entry_count[row],
        usedEntries: indexes.used_entry_count[row],
        longest: indexes.longest_chain[row],
        chains: indexes.chain_counts[row],
        lost: indexes.lost_entry_count[row],
        begin: indexes.begin_timestamp[row],
        end: indexes.end_timestamp[row],
    }));
    const chains = [];
    for (const row of rows) row.chains.forEach((number, at) => (chains[at] = (chains[at] ?? 0) + number));
    const bins = chains.map((number, at) => ({ label: binName(at), number: number ?? 0 }));
    const place = el("div", { class: "canvas still" });
    onWidth(place, (width) => fill(place, drawn(bins, width)));
    const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
    const lost = sum("lost");
    section.append(
        el(
            "p",
            {},
            `${counted(rows.length, "index file")}; ${share(sum("usedSlots"), sum("slots"))} of the slots and ${share(sum("usedEntries"), sum("entries"))} of the entries are in use. `,
            lost === 0
                ? "No finding names an entry that no query finds."
                : `No query finds ${counted(lost, "entry", "entries")}.`,
        ),
        el("h3", {}, "Chain lengths"),
        place,
        el(
            "details",
            {},
            el("summary", {}, "Chain lengths as a table"),
            el(
                "table",
                { class: "small" },
                el("caption", {}, "Chain lengths"),
                el(
                    "thead",
                    {},
                    el(
                        "tr",
                        {},
                        el("th", { scope: "col" }, "Entries in a chain"),
                        el("th", { scope: "col" }, "Chains"),
                    ),
                ),
                el(
                    "tbody",
                    {},
                    bins.map((bin) =>
                        el(
                            "tr",
                            {},
                            el("th", { scope: "row" }, bin.label),
                            el("td", { class: "number" }, count(bin.number)),
                        ),
                    ),
                ),
            ),
        ),
        listOf(rows, view),
    );
    return section;
}

const binName = (at) => (at === 0 ? "1" : at === 1 ? "2" : `${2 ** (at - 1) + 1} to ${2 ** at}`);

function drawn(bins, width) {
    return chart({
        width: Math.min(width, 720),
        height: 200,
        marginLeft: 60,
        marginBottom: 44,
        x: { domain: bins.map((bin) => bin.label), label: "entries in a chain" },
        y: { label: "chains", domain: [0, Math.max(1, ...bins.map((bin) => bin.number))] },
        marks: [
            barY(bins, {
                x: "label",
                y: "number",
                className: "bars",
                title: (bar) => `${bar.label}: ${counted(bar.number, "chain")}`,
            }),
            ruleY([0], { className: "ground" }),
            axisX({
                tickRotate: width < 500 ? -40 : 0,
                label: "entries in a chain",
                ticks:
                    bins.length > 12
                        ? bins.map((bin) => bin.label).filter((_, at) => at % 2 === 0)
                        : undefined,
            }),
            axisY({ ticks: 4, tickFormat: count, label: "chains" }),
        ],
    });
}

function listOf(rows, view) {
    const use = (used, all) => {
        const svg = chart({
            width: 80,
            height: 12,
            margin: 0,
            x: { axis: null, domain: [0, Math.max(1, all)] },
            y: { axis: null, domain: [0, 1] },
            marks: [
                rect([0], { x1: 0, x2: Math.min(used, all), y1: 0, y2: 1, fill: "url(#kind-kept)" }),
                rect([0], { x1: 0, x2: Math.max(1, all), y1: 0, y2: 1, inset: 0.5, className: "frame" }),
            ],
        });
        return el("span", { class: "range" }, svg, ` ${share(used, all)}`);
    };
    const name = (row) => row.file?.path ?? "";
    const go = (row) => (event) => {
        event.preventDefault();
        view.show(row.file.start, row.file.end);
        document.getElementById("map-stage").focus();
    };
    const shown = table(
        [
            {
                name: "file",
                title: "File",
                value: name,
                cell: (row) =>
                    row.file?.size > 0
                        ? el("a", { href: "#map", class: "place", onclick: go(row) }, name(row))
                        : name(row),
            },
            {
                name: "slots",
                title: "Slots in use",
                value: (row) => row.usedSlots / Math.max(1, row.slots),
                cell: (row) => use(row.usedSlots, row.slots),
                numeric: true,
                search: false,
            },
            {
                name: "entries",
                title: "Entries in use",
                value: (row) => row.usedEntries / Math.max(1, row.entries),
                cell: (row) => use(row.usedEntries, row.entries),
                numeric: true,
                search: false,
            },
            { name: "longest", title: "Longest chain", value: (row) => row.longest, numeric: true },
            { name: "lost", title: "Not found by queries", value: (row) => row.lost, numeric: true },
            { name: "begin", title: "First message", value: (row) => time(row.begin || null) },
            { name: "end", title: "Last message", value: (row) => time(row.end || null) },
        ],
        { caption: "Index files", noun: ["file", "files"], perPage: 25, searched: rows.length > 25 },
    );
    shown.setRows(rows);
    return shown.element;
}
