// Findings by rule, unfolded on demand; each leads to its place on the map and is led to from there.
import { announce, count, counted, el, fill } from "./dom.js";
import { showFinding } from "./map.js";
import { table } from "./tables.js";

const RANK = { error: 2, warning: 1, info: 0 };

/** The section of findings: {element, open(index)}. */
export function findingsSection(model, view) {
    const { findings: page } = model.page;
    const groups = page.rules.filter((rule) => rule.count > 0).map((rule) => ({ rule, rows: [] }));
    const byRule = new Map(groups.map((group) => [group.rule, group]));
    for (const finding of model.findings) if (!finding.gone) byRule.get(finding.rule)?.rows.push(finding);
    groups.sort(
        (one, other) =>
            (RANK[other.rule.severity] ?? 0) - (RANK[one.rule.severity] ?? 0) ||
            other.rule.count - one.rule.count,
    );
    groups.forEach((group) => prepare(group, model, view));

    const list = el("div", { class: "groups" });
    const tally = el("p", { class: "tally", role: "status" });
    const severities = [...new Set(groups.map((group) => group.rule.severity))];
    const severity = el(
        "select",
        {},
        el("option", { value: "" }, "all"),
        severities.map((name) => el("option", { value: name }, name)),
    );
    const words = el("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    const open = el("input", { type: "checkbox" });

    function keep() {
        const asked = words.value.toLowerCase();
        const kept = groups.filter((group) => {
            const { rule } = group;
            if (severity.value !== "" && rule.severity !== severity.value) return false;
            const own = `${rule.rule} ${rule.slug} ${rule.why} ${rule.advice}`.toLowerCase();
            group.shown = group.rows.filter(
                (row) =>
                    (!open.checked || row.left) &&
                    (asked === "" || own.includes(asked) || textOf(row).includes(asked)),
            );
            return group.shown.length > 0 || (group.rows.length === 0 && own.includes(asked));
        });
        fill(
            list,
            kept.map((group) => group.element),
        );
        for (const group of kept) group.refresh();
        const number = kept.reduce((sum, group) => sum + group.rule.count, 0);
        fill(tally, `${counted(kept.length, "rule")} with ${counted(number, "finding")}`);
    }
    for (const [part, event] of [
        [severity, "change"],
        [words, "input"],
        [open, "change"],
    ])
        part.addEventListener(event, keep);
    keep();

    const unlisted = page.count - page.kept_count;
    const element = el(
        "section",
        { id: "findings", "aria-labelledby": "findings-title" },
        el("h2", { id: "findings-title" }, "Findings"),
        groups.length === 0 &&
            el("p", {}, model.after ? "The plan leaves no finding." : "The check has no finding."),
        unlisted > 0 &&
            el(
                "p",
                {},
                `${counted(page.kept_count, "finding")} of ${count(page.count)} are listed one by one; the map and the numbers count all of them.`,
            ),
        groups.length > 0 &&
            el(
                "div",
                { class: "tools", role: "group", "aria-label": "Filter findings" },
                el("label", {}, "Severity ", severity),
                el("label", {}, "Filter ", words),
                model.actions.length > 0 && !model.after && el("label", {}, open, " Only what the plan leaves"),
            ),
        groups.length > 0 && tally,
        list,
    );

    return {
        element,
        /** Unfolds the text of a finding and moves to it; filters that hide the finding are cleared. */
        open(index) {
            const finding = model.findings[index];
            const group = finding && byRule.get(finding.rule);
            if (!group || finding.gone) return;
            if (!group.shown.includes(finding) || !group.element.isConnected) {
                severity.value = "";
                words.value = "";
                open.checked = false;
                keep();
            }
            view.setFinding(index);
            group.element.open = true;
            group.unfold();
            group.table.show(finding);
            const row = document.getElementById(`finding-${index}`);
            row?.scrollIntoView({ block: "center" });
            row?.focus({ preventScroll: true });
            announce(`${finding.rule.rule}: ${finding.message}`);
        },
    };
}

function textOf(finding) {
    finding.text ??= `${finding.message} ${finding.file ? finding.file.path : ""}`.toLowerCase();
    return finding.text;
}

function prepare(group, model, view) {
    const { rule } = group;
    const place = el("div", {});
    group.shown = group.rows;
    group.refresh = () => group.table?.setRows(group.shown);
    group.unfold = () => {
        if (group.table) return;
        group.table = listOf(group, model, view);
        const more = rule.count - group.rows.reduce((sum, row) => sum + row.count, 0);
        fill(
            place,
            [
                ["What it means", rule.why],
                ["What to do", rule.advice],
            ]
                .filter(([, text]) => text)
                .map(([title, text]) => el("p", {}, el("strong", {}, title), ": ", text)),
            rule.repair && el("p", {}, el("strong", {}, "Repair"), `: ${rule.repair}`),
            group.rows.length > 0 && group.table.element,
            more > 0 &&
                el("p", {}, `${count(more)} more${model.after ? "" : ": run check with --all to list them"}.`),
        );
        group.table.setRows(group.shown);
    };
    const badge = el("span", { class: `badge ${rule.severity}` }, rule.severity);
    group.element = el(
        "details",
        { class: "group", id: `rule-${rule.rule}`, ontoggle: () => group.element.open && group.unfold() },
        el(
            "summary",
            {},
            badge,
            " ",
            el("span", { class: "rule" }, `${rule.rule} ${rule.slug}`),
            " ",
            el("span", { class: "number" }, `(${count(rule.count)})`),
            group.rows.length > 0 && el("span", { class: "title" }, ` ${group.rows[0].message}`),
        ),
        place,
    );
}

function listOf(group, model, view) {
    const show = (finding) => (event) => {
        event.preventDefault();
        view.setFinding(finding.index);
        showFinding(view, finding);
        const stage = document.getElementById("map-stage");
        stage.scrollIntoView({ block: "center" });
        stage.focus({ preventScroll: true });
    };
    const range = (finding) => {
        if (!finding.file) return "the store";
        const bytes =
            finding.start === null
                ? ""
                : finding.end === null
                  ? `, byte ${finding.start}`
                  : `, bytes ${finding.start} to ${finding.end}`;
        return `${finding.file.path}${bytes}`;
    };
    const where = (finding) => {
        if (finding.at === null) return range(finding);
        return el("a", { href: "#map", class: "place", onclick: show(finding) }, range(finding));
    };
    const repairs = (finding) => {
        if (finding.actions.length === 0) return "none";
        return finding.actions.map((index, at) => [
            at > 0 ? ", " : "",
            el(
                "a",
                { href: `#action-${index}`, "data-action": index },
                model.actions[index]?.action ?? `action ${index}`,
            ),
        ]);
    };
    const columns = [
        { name: "place", title: "Place", value: range, cell: where },
        {
            name: "message",
            title: "Message",
            value: (finding) => finding.message,
            cell: (finding) => [finding.isNew && [el("span", { class: "badge" }, "new"), " "], finding.message],
        },
        { name: "count", title: "Count", value: (finding) => finding.count, numeric: true },
    ];
    if (model.page.plan)
        columns.push({
            name: "repairs",
            title: "Repair",
            value: (finding) => finding.actions.map((index) => model.actions[index]?.action).join(" "),
            cell: repairs,
        });
    return table(columns, {
        caption: `Findings of ${group.rule.rule}`,
        noun: ["row", "rows"],
        perPage: 25,
        searched: group.rows.length > 25,
        rowAttributes: (finding) => ({
            id: `finding-${finding.index}`,
            tabindex: "-1",
            class: finding.index === view.finding ? "chosen" : null,
        }),
    });
}

/** The section of the plan: its actions, each with its places on the map. */
export function planSection(model, view) {
    const { plan } = model.page;
    if (!plan || plan.obstacle || plan.actions.length === 0) return null;
    const show = (action, place) => (event) => {
        event.preventDefault();
        view.show(place[0] - 16, place[1] + 16);
        const stage = document.getElementById("map-stage");
        stage.scrollIntoView({ block: "center" });
        stage.focus({ preventScroll: true });
    };
    const amounts = (numbers) =>
        Object.entries(numbers)
            .map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`)
            .join(", ");
    const rows = table(
        [
            { name: "action", title: "Action", value: (action) => action.action },
            { name: "safe", title: "Provably safe", value: (action) => (action.is_safe ? "yes" : "no") },
            {
                name: "file",
                title: "File",
                value: (action) => action.file?.path ?? "the store",
                cell: (action) =>
                    action.places.length > 0
                        ? el(
                              "a",
                              { href: "#map", class: "place", onclick: show(action, action.places[0]) },
                              action.file?.path ?? "the store",
                          )
                        : (action.file?.path ?? "the store"),
            },
            { name: "note", title: "What it does", value: (action) => action.note },
            { name: "gains", title: "Gains", value: (action) => amounts(action.gains) },
            { name: "losses", title: "Losses", value: (action) => amounts(action.losses) },
            { name: "findings", title: "Findings", value: (action) => action.finding_count, numeric: true },
        ],
        {
            caption: "Actions of the plan",
            noun: ["action", "actions"],
            filters: [
                {
                    title: "Show",
                    choices: [
                        ["all", null],
                        ["provably safe", (action) => action.is_safe],
                        ["not provably safe", (action) => !action.is_safe],
                    ],
                },
            ],
            rowAttributes: (action) => ({ id: `action-${action.index}`, tabindex: "-1" }),
        },
    );
    rows.setRows(model.actions);
    const more = plan.action_counts.count - plan.action_counts.kept_count;
    return {
        show: (index) => {
            rows.show(model.actions[index]);
            const row = document.getElementById(`action-${index}`);
            row?.scrollIntoView({ block: "center" });
            row?.focus({ preventScroll: true });
        },
        element: el(
            "section",
            { id: "plan", "aria-labelledby": "plan-title" },
            el("h2", { id: "plan-title" }, "Plan"),
            plan.notices.length > 0 &&
                el(
                    "ul",
                    {},
                    plan.notices.map((notice) => el("li", {}, notice)),
                ),
            rows.element,
            more > 0 && el("p", {}, `${counted(more, "more action")}: run plan to see all of them.`),
            plan.unanswered.length > 0 &&
                el(
                    "details",
                    {},
                    el("summary", {}, "Findings that no action answers"),
                    el(
                        "ul",
                        {},
                        plan.unanswered.map((one) =>
                            el("li", {}, `${one.rule} (${count(one.count)}): ${one.reason}`),
                        ),
                    ),
                ),
        ),
    };
}
