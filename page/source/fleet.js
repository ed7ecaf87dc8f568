// One page for a fleet: the table of verdicts, worst first.
import { axisX, axisY, barX, rect, ruleX } from "@observablehq/plot";
import { chart } from "./charts.js";
import { historyOf } from "./history.js";
import { replicasSection } from "./replicas.js";
import { count, counted, el, fill, onWidth, size, time } from "./dom.js";
import { addPatterns } from "./patterns.js";
import { FATES } from "./model.js";
import { table } from "./tables.js";

const ORDER = [
    "interrupted",
    "refused",
    "harmful",
    "failed",
    "unread",
    "lost",
    "damaged",
    "unknown",
    "partial",
    "running",
    "unclean",
    "healthy",
];
const SOUND = ["unclean", "healthy"];

const MEANINGS = {
    interrupted: "a repair was interrupted",
    refused: "a broker does not start",
    harmful: "a start loses more",
    failed: "the check could not be made",
    unread: "a part could not be read",
    lost: "messages are lost; a start loses nothing more",
    damaged: "a start loses nothing more",
    unknown: "nobody can say what a start does",
    partial: "a part was not checked",
    running: "a broker holds the store",
    unclean: "the broker was killed; its start puts all in order",
    healthy: "nothing is wrong",
};

/** The sections of a fleet's page. */
export function fleetSections(page) {
    addPatterns(FATES);
    const rows = rowsOf(page.stores);
    rows.forEach((row) => (row.rules = []));
    if (page.rules) shareRules(page.rules, rows);
    const history = historyOf(page, rows);
    rows.sort(
        (one, other) =>
            rank(one) - rank(other) ||
            (other.error_count ?? 0) - (one.error_count ?? 0) ||
            (other.warning_count ?? 0) - (one.warning_count ?? 0),
    );
    return [
        summary(page, rows),
        listOf(rows, page, history),
        replicasSection(page),
        rulesOf(page.rules, rows),
    ].filter(Boolean);
}

/** Where a state is among all, worst first; one that this page does not know comes last. */
const rank = (row) => (ORDER.includes(row.state) ? ORDER.indexOf(row.state) : ORDER.length);

/** Rows of a table of columns. */
function rowsOf(stores) {
    const names = Object.keys(stores);
    return (stores[names[0]] ?? []).map((_, at) =>
        Object.fromEntries(names.map((name) => [name, stores[name][at]])),
    );
}

function summary(page, rows) {
    const states = ORDER.map((state) => ({ state, number: page.state_counts[state] ?? 0 })).filter(
        (one) => one.number > 0,
    );
    const place = el("div", { class: "canvas still" });
    onWidth(place, (width) =>
        fill(
            place,
            chart({
                width: Math.min(width, 720),
                height: 40 + 24 * states.length,
                marginLeft: 80,
                x: { label: "stores" },
                y: { domain: states.map((one) => one.state), label: null },
                marks: [
                    barX(states, { x: "number", y: "state", className: "bars" }),
                    ruleX([0], { className: "ground" }),
                    axisX({
                        ticks: 4,
                        tickFormat: (value) => (Number.isInteger(value) ? count(value) : ""),
                        label: "stores",
                    }),
                    axisY({ label: null }),
                ],
            }),
        ),
    );
    const all = page.store_counts.count;
    const bad = all - SOUND.reduce((sum, state) => sum + (page.state_counts[state] ?? 0), 0);
    const headline =
        bad === 0
            ? `${counted(all, "store")}: nothing is wrong.`
            : `${count(bad)} of ${counted(all, "store")} ${bad === 1 ? "is" : "are"} not healthy.`;
    const facts = [
        counted(page.error_count, "error"),
        counted(page.warning_count, "warning"),
        counted(page.lost_record_count, "lost message"),
        size(page.byte_count),
    ];
    if (page.oldest_read_timestamp !== null) {
        facts.push(
            `${size(page.read_byte_count)} read`,
            `${size(page.taken_over_byte_count)} taken over`,
            `oldest reading ${time(page.oldest_read_timestamp)}`,
        );
    }
    return el(
        "section",
        { id: "verdict", class: `verdict ${bad > 0 ? "error" : ""}`, "aria-labelledby": "verdict-title" },
        el("h2", { id: "verdict-title" }, headline),
        el("p", {}, `${facts.join(", ")}.`),
        place,
        el(
            "ul",
            {},
            states.map((one) =>
                el("li", {}, `${one.state}: ${counted(one.number, "store")}, ${MEANINGS[one.state]}`),
            ),
        ),
        el("p", { class: "made" }, `By rocketfsck ${page.tool_version}.`),
    );
}

function bar(value, most) {
    if (value === null || value === undefined) return "";
    const svg = chart({
        width: 60,
        height: 10,
        margin: 0,
        x: { axis: null, domain: [0, Math.max(1, most)] },
        y: { axis: null, domain: [0, 1] },
        marks: [rect([0], { x1: 0, x2: value, y1: 0, y2: 1, fill: "url(#kind-kept)" })],
    });
    return el("span", { class: "range" }, svg, ` ${count(value)}`);
}

function listOf(rows, page, history) {
    const most = (name) => rows.reduce((largest, row) => Math.max(largest, row[name] ?? 0), 1);
    const amounts = (name, title) => {
        const top = most(name);
        return {
            name,
            title,
            value: (row) => row[name],
            cell: (row) => bar(row[name], top),
            numeric: true,
            search: false,
        };
    };
    const states = ORDER.filter((state) => rows.some((row) => row.state === state));
    const shown = table(
        [
            {
                name: "root",
                title: "Store",
                value: (row) => row.root,
                cell: (row) => (row.href ? el("a", { href: row.href }, row.root) : row.root),
            },
            { name: "broker", title: "Broker", value: (row) => row.broker },
            {
                name: "state",
                title: "State",
                value: (row) => row.state,
                cell: (row) => el("span", { class: `badge state-${row.state}` }, row.state),
            },
            ...(history
                ? [{ name: "history", title: "Earlier runs", value: () => "", cell: history, sort: false, search: false }]
                : []),
            amounts("error_count", "Errors"),
            amounts("warning_count", "Warnings"),
            ...(rows.some((row) => Number.isInteger(row.new_finding_count))
                ? [amounts("new_finding_count", "New")]
                : []),
            amounts("lost_record_count", "Lost messages"),
            {
                name: "damaged",
                title: "Damaged",
                value: (row) => row.damaged_byte_count,
                cell: (row) => (row.damaged_byte_count === null ? "" : size(row.damaged_byte_count)),
                numeric: true,
                search: false,
            },
            {
                name: "size",
                title: "Size",
                value: (row) => row.byte_count,
                cell: (row) => (row.byte_count === null ? "" : size(row.byte_count)),
                numeric: true,
                search: false,
            },
            {
                name: "rules",
                title: "Rules",
                value: (row) => row.rules.map((one) => one.rule).join(" "),
                cell: (row) => (page.rules ? strip(row.rules) : ""),
                sort: false,
            },
            { name: "version", title: "Version", value: (row) => row.version },
            {
                name: "next",
                title: "Next",
                value: (row) => row.error ?? row.next_command,
                cell: (row) =>
                    row.error ? row.error : row.next_command ? el("code", {}, row.next_command) : "nothing",
            },
        ],
        {
            caption: "Stores",
            noun: ["store", "stores"],
            filters: [
                {
                    title: "State",
                    choices: [
                        ["all", null],
                        ["not healthy", (row) => !SOUND.includes(row.state)],
                        ...states.map((state) => [state, (row) => row.state === state]),
                    ],
                },
            ],
        },
    );
    shown.setRows(rows);
    const more = page.store_counts.count - page.store_counts.kept_count;
    return el(
        "section",
        { id: "stores", "aria-labelledby": "stores-title" },
        el("h2", { id: "stores-title" }, "Stores"),
        history &&
            el("p", {}, "Earlier runs: a mark for each run that checked the store, the newest on the right; the higher, the worse. "
                + "page DIR/stores/RUN.parquet makes the page of an earlier run."),
        shown.element,
        more > 0 &&
            el("p", {}, `${counted(more, "more store")}, with better states, are only in the counts.`),
    );
}

const PATTERNS = { error: "cut", warning: "hidden", info: "kept" };

function shareRules(rules, rows) {
    rules.store.forEach((store, at) =>
        rows[store]?.rules.push({
            rule: rules.rule[at],
            severity: rules.severity[at],
            count: rules.count[at],
        }),
    );
    for (const row of rows) row.rules.sort((one, other) => other.count - one.count);
}

/** The findings of a store as columns, one a rule, as high as there are many (on a scale of powers of ten). */
function strip(rules) {
    if (rules.length === 0) return "none";
    const bars = rules.slice(0, 24).map((one, at) => ({ ...one, at }));
    const svg = chart({
        width: 6 * bars.length,
        height: 18,
        margin: 0,
        x: { axis: null, domain: [0, bars.length] },
        y: { axis: null, domain: [0, 1] },
        marks: [
            rect(bars, {
                x1: "at",
                x2: (one) => one.at + 0.85,
                y1: 0,
                y2: (one) => Math.min(1, 0.2 + Math.log10(one.count) / 6),
                fill: (one) => `url(#kind-${PATTERNS[one.severity] ?? "kept"})`,
                className: "parts",
            }),
        ],
    });
    const words = rules
        .slice(0, 3)
        .map((one) => `${one.rule} (${count(one.count)})`)
        .join(", ");
    return el("span", { class: "range" }, svg, rules.length > 3 ? `${words}, …` : words);
}

/** The rules of all stores, those of most stores first. */
function rulesOf(rules, rows) {
    if (!rules) return null;
    const sums = new Map();
    for (const row of rows) {
        for (const one of row.rules) {
            const sum = sums.get(one.rule) ?? { rule: one.rule, severity: one.severity, stores: 0, count: 0 };
            sum.stores += 1;
            sum.count += one.count;
            sums.set(one.rule, sum);
        }
    }
    if (sums.size === 0) return null;
    const shown = table(
        [
            { name: "rule", title: "Rule", value: (row) => row.rule },
            {
                name: "severity",
                title: "Severity",
                value: (row) => row.severity,
                cell: (row) => el("span", { class: `badge ${row.severity}` }, row.severity),
            },
            { name: "stores", title: "Stores", value: (row) => row.stores, numeric: true },
            { name: "count", title: "Findings", value: (row) => row.count, numeric: true },
        ],
        { caption: "Rules", noun: ["rule", "rules"], perPage: 25, sorted: ["stores", true] },
    );
    shown.setRows([...sums.values()]);
    return el(
        "section",
        { id: "rules", "aria-labelledby": "rules-title" },
        el("h2", { id: "rules-title" }, "Rules"),
        shown.element,
    );
}
