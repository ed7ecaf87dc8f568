// The page as it would be after the plan: the document with the cells, strips and tables that the plan changes.

const EMPTY_CROWDS = { file: [], start: [], end: [], severity: [], count: [] };

/** The rows of findings that are gone after the plan: those that it answers, where nobody tried it. */
export function goneRows(page) {
    if (!hasPlan(page)) return new Set();
    const { tried } = page.plan;
    if (tried) return new Set(tried.findings.gone.flatMap(([start, end]) => rowsOf(start, end)));
    const { actions } = page.findings.rows;
    return new Set([...actions.keys()].filter((row) => actions[row].length > 0));
}

const rowsOf = (start, end) => Array.from({ length: end - start }, (_, at) => start + at);

/** Whether there is anything to compare with. */
export const hasPlan = (page) => Boolean(page.plan && !page.plan.obstacle && page.plan.actions.length > 0);

/** The document after the plan; where the plan was not tried, without what only a trial can tell. */
export function pageAfter(page) {
    const { tried } = page.plan;
    const left = page.findings.kept_count - goneRows(page).size;
    // The windows have the bytes as they are.
    const common = { ...page, windows: [] };
    if (!tried)
        return {
            ...common,
            starts: [],
            findings: { ...page.findings, kept_count: left, crowds: EMPTY_CROWDS },
        };
    const files = patched(page.map.files, tried.cells, "map.files");
    const { first_span, spans } = strips(page.map, tried, files.size.length);
    return {
        ...common,
        starts: tried.starts,
        map: {
            ...page.map,
            directories: [...page.map.directories, ...tried.directories],
            files: { ...files, first_span },
            spans,
            damage: tried.damage,
            damage_counts: tried.damage_counts,
        },
        topics: patched(page.topics, tried.cells, "topics"),
        queues: patched(page.queues, tried.cells, "queues"),
        timeline: tried.timeline ?? page.timeline,
        groups: tried.groups ?? page.groups,
        positions: tried.positions ?? page.positions,
        position_counts: tried.position_counts ?? page.position_counts,
        indexes: tried.indexes ?? page.indexes,
        findings: findingsAfter(page.findings, tried.findings, left),
    };
}

/** The findings of both sides by their rows: those that are gone keep theirs, and new ones follow. */
function findingsAfter(before, after, left) {
    const { rows } = after;
    return {
        ...before,
        count: after.counts.reduce((sum, count) => sum + count, 0),
        kept_count: left + rows.rule.length,
        rules: [...before.rules, ...after.rules].map((rule, row) => ({ ...rule, count: after.counts[row] })),
        rows: Object.fromEntries(
            Object.entries(before.rows).map(([name, values]) => [name, [...values, ...rows[name]]]),
        ),
        new_rows: [before.rows.rule.length, before.rows.rule.length + after.new_count],
        by_file: after.by_file,
        crowds: after.crowds,
    };
}

/** A table of columns with other values in some cells; rows beyond its end are new. */
function patched(table, cells, name) {
    const made = { ...table };
    for (const { column, runs, values } of cells.filter((one) => one.table === name)) {
        const changed = [...(made[column] ?? [])];
        let at = 0;
        for (const [start, end] of runs) for (let row = start; row < end; row += 1) changed[row] = values[at++];
        made[column] = changed;
    }
    return made;
}

/** Where the strip of each file begins, and the spans of all strips. */
function strips(map, tried, count) {
    const changed = new Map(tried.strip_files.map((file, at) => [file, at]));
    const names = Object.keys(map.spans);
    const spans = Object.fromEntries(names.map((name) => [name, []]));
    const first_span = [];
    const take = (table, firsts, at) => {
        const last = firsts[at + 1] ?? table.start.length;
        for (let row = firsts[at]; row < last; row += 1)
            for (const name of names) spans[name].push(table[name][row]);
    };
    for (let file = 0; file < count; file += 1) {
        first_span.push(spans.start.length);
        if (changed.has(file)) take(tried.spans, tried.strip_first_spans, changed.get(file));
        else if (file < map.files.first_span.length) take(map.spans, map.files.first_span, file);
    }
    return { first_span, spans };
}
