// The document of the page as the charts and tables use it: one line of bytes from the first file to the last.
import { goneRows } from "./after.js";
import { LOOKS, UNKNOWN_LOOK } from "./patterns.js";
import { firstAfter } from "./spans.js";
import { laneOf, startLanes } from "./startlanes.js";

const FAMILIES = ["commitlog", "consumequeue", "consumequeue-ext", "index", "config", "other", "missing"];

const FAMILY_TITLES = {
    commitlog: "commit log",
    consumequeue: "consume queues",
    "consumequeue-ext": "extensions of consume queues",
    index: "index",
    config: "config",
    other: "other files",
    missing: "missing files",
};

const KIND_TITLES = {
    records: ["records", "whole records that decode"],
    units: ["units", "units of a consume queue"],
    entries: ["entries", "entries of an index file"],
    header: ["header", "the header of a file"],
    slots: ["slots", "hash slots of an index file"],
    blank: ["blank", "the blank that ends a full file"],
    zero: ["zero", "bytes that no broker has written yet"],
    filler: ["filler", "units that a broker writes in place of deleted ones"],
    stale: ["stale", "remains of an older use of the file"],
    torn: ["torn", "a record that is incomplete"],
    damaged: ["damaged", "bytes that belong to no whole record"],
    malformed: ["malformed", "records with fields that contradict each other"],
    mixed: ["mixed", "several kinds of sound regions, drawn as one"],
    unread: ["not read", "bytes that the page was made without"],
};

const MORE_LOOKS = {
    malformed: { tile: "rising", tone: "bad", rank: 3 },
    mixed: { tile: "falling", tone: "data", rank: 0 },
    unread: { tile: "dashes", tone: "none", rank: 0 },
    kept: { tile: "plain", tone: "data", rank: 0 },
    cut: { tile: "cross", tone: "bad", rank: 3 },
    hidden: { tile: "columns", tone: "worn", rank: 2 },
    repaired: { tile: "grid", tone: "good", rank: 5 },
};

const kindNamed = (name) => ({
    id: name,
    name,
    title: KIND_TITLES[name]?.[0] ?? name,
    meaning: KIND_TITLES[name]?.[1] ?? "",
    ...(LOOKS[name] ?? MORE_LOOKS[name] ?? UNKNOWN_LOOK),
});

/** What lanes about starts and repairs are filled with. */
export const FATES = ["kept", "cut", "hidden", "repaired"].map((name) => ({
    ...kindNamed(name),
    title: name,
}));

/**
 * The document of a store, with places of all files on one line; `after` is the store after the plan, in
 * which some findings are gone and others are new.
 */
export function makeModel(page, after = false) {
    const kinds = page.map.kinds.map(kindNamed);
    const table = page.map.files;
    const files = table.size.map((size, index) => ({
        index,
        directory: page.map.directories[table.directory[index]] ?? "",
        path: pathOf(page, index),
        family: familyOf(page.map.families[table.family[index]]),
        fileCount: table.file_count[index],
        size,
        base: table.start_offset[index],
        records: table.record_count[index],
        firstTime: table.first_timestamp[index],
        lastTime: table.last_timestamp[index],
        findings: 0,
        start: 0,
        end: 0,
    }));
    const there = files.filter((file) => file.fileCount > 0);
    const ordered = FAMILIES.flatMap((family) => inOrder(there.filter((file) => file.family === family)));
    const areas = layOut(ordered);
    const total = ordered.length > 0 ? ordered[ordered.length - 1].end : 0;
    const spans = allSpans(page, ordered, kinds);
    const laid = ordered.filter((file) => file.size > 0);
    const model = {
        page,
        after,
        kinds,
        files,
        ordered,
        laid,
        laidEnds: Float64Array.from(laid, (file) => file.end),
        areas,
        total,
        spans,
        ranks: kinds.map((kind) => kind.rank),
    };
    model.findings = findingsOf(page, files, after);
    model.crowds = crowdsOf(page, files);
    for (let row = 0; row < page.findings.by_file.file.length; row += 1) {
        const file = files[page.findings.by_file.file[row]];
        if (file) file.findings += page.findings.by_file.count[row];
    }
    model.actions = actionsOf(page, files);
    model.starts = page.starts.map((start, index) => laneOf(start, index, model));
    model.lanes = startLanes(model);
    model.damage = damageOf(page, files, kinds);
    return model;
}

const familyOf = (name) => (FAMILIES.includes(name) ? name : "other");

function pathOf(page, index) {
    const table = page.map.files;
    const directory = page.map.directories[table.directory[index]] ?? "";
    const name =
        table.name[index] === "" ? String(table.start_offset[index]).padStart(20, "0") : table.name[index];
    return directory === "" ? name : `${directory}/${name}`;
}

function layOut(ordered) {
    const areas = [];
    let at = 0;
    for (const file of ordered) {
        file.start = at;
        at += file.size;
        file.end = at;
        let area = areas[areas.length - 1];
        if (!area || area.family !== file.family) {
            area = {
                family: file.family,
                title: FAMILY_TITLES[file.family],
                start: file.start,
                end: at,
                files: [],
            };
            areas.push(area);
        }
        area.end = at;
        area.files.push(file);
    }
    return areas;
}

function allSpans(page, ordered, kinds) {
    const { start, kind, bad_byte_count: bad } = page.map.spans;
    const first = page.map.files.first_span;
    const numberOf = (name) => {
        const found = kinds.findIndex((one) => one.name === name);
        return found < 0 ? kinds.push(kindNamed(name)) - 1 : found;
    };
    const [unread, damaged] = [numberOf("unread"), numberOf("damaged")];
    const made = { starts: [], ends: [], kinds: [] };
    const add = (from, to, what) => {
        if (to <= from) return;
        made.starts.push(from);
        made.ends.push(to);
        made.kinds.push(what);
    };
    // What is damaged of a region that stands for many is drawn first: nobody kept where in it each piece is.
    const addMixed = (from, to, what, wrong) => {
        const middle = Math.min(to, from + wrong);
        add(from, middle, damaged);
        add(middle, to, what);
    };
    for (const file of ordered) {
        const last = file.index + 1 < first.length ? first[file.index + 1] : start.length;
        const begin = first[file.index];
        if (begin >= last) add(file.start, file.end, unread);
        for (let row = begin; row < last; row += 1) {
            const from = Math.min(start[row], file.size);
            const to = row + 1 < last ? Math.min(start[row + 1], file.size) : file.size;
            const what = kind[row] in kinds ? kind[row] : unread;
            const wrong = kinds[what].name === "mixed" ? bad[row] : 0;
            addMixed(file.start + from, file.start + to, what, wrong);
        }
    }
    return {
        starts: Float64Array.from(made.starts),
        ends: Float64Array.from(made.ends),
        kinds: Uint8Array.from(made.kinds),
    };
}

/** Files that came last, which are new, at their places by path among the others. */
function inOrder(files) {
    const made = [];
    for (const file of files) {
        let at = made.length;
        while (at > 0 && made[at - 1].directory === file.directory && made[at - 1].path > file.path) at -= 1;
        if (at === made.length && at > 0 && made[at - 1].directory !== file.directory) {
            const last = made.findLastIndex((one) => one.directory === file.directory && one.path < file.path);
            if (last >= 0) at = last + 1;
        }
        made.splice(at, 0, file);
    }
    return made;
}

function findingsOf(page, files, after) {
    const { rows, new_rows: [firstNew, lastNew] = [0, 0] } = page.findings;
    const gone = goneRows(page);
    return rows.rule.map((rule, index) => {
        const file = files[rows.file[index]] ?? null;
        const start = rows.start[index];
        const made = {
            index,
            rule: page.findings.rules[rule],
            file,
            start,
            end: rows.end[index],
            physical: rows.physical_offset[index],
            queue: rows.queue[index],
            queueOffset: rows.queue_offset[index],
            count: rows.count[index],
            message: rows.message[index],
            window: rows.window[index],
            actions: rows.actions[index].filter((action) => action >= 0),
            left: !gone.has(index),
            gone: after && gone.has(index),
            isNew: firstNew <= index && index < lastNew,
            timestamp: rows.timestamp[index],
            at: null,
            to: null,
        };
        if (file && file.size > 0) [made.at, made.to] = placed(file, start, made.end);
        return made;
    });
}

/** Where a range of a file is on the line of all bytes; a place without end is one byte. */
export function placed(file, start, end) {
    const from = Math.min(Math.max(start ?? 0, 0), file.size - 1);
    const to = Math.min(Math.max(end ?? (start === null ? file.size : from + 1), from + 1), file.size);
    return [file.start + from, file.start + to];
}

function crowdsOf(page, files) {
    const { file, start, end, severity, count } = page.findings.crowds;
    const made = [];
    for (let row = 0; row < file.length; row += 1) {
        const one = files[file[row]];
        if (!one || one.size === 0) continue;
        const [at, to] = placed(one, start[row], end[row]);
        made.push({ start: at, end: to, severity: severity[row], weight: count[row], index: -1 });
    }
    return made;
}

function actionsOf(page, files) {
    const actions = page.plan?.actions ?? [];
    return actions.map((action, index) => {
        const file = files[action.file] ?? null;
        // Extents are also places that the action relies on: what it changes is of the family of its file.
        const changed = action.extents
            .map(([row, start, end]) => [files[row], start, end])
            .filter(([one]) => one && one.size > 0 && (!file || one.family === file.family));
        const places = changed.map(([one, start, end]) => placed(one, start, end ?? one.size));
        return { ...action, index, file, places };
    });
}

function damageOf(page, files, kinds) {
    const { file, start, end, kind } = page.map.damage;
    const made = [];
    for (let row = 0; row < file.length; row += 1) {
        const one = files[file[row]];
        if (one && one.size > 0)
            made.push({ file: one, start: start[row], end: end[row], kind: kinds[kind[row]] });
    }
    return made;
}

/** The file at a place of the line, or null. */
export function fileAt(model, place) {
    return model.laid[firstAfter(model.laidEnds, place)] ?? null;
}

/** A place of the line in words: the file and the bytes in it. */
export function placeName(model, from, to) {
    const first = fileAt(model, from);
    const last = fileAt(model, Math.max(from, to - 1));
    if (!first || !last) return "the store";
    if (first !== last) {
        const area = model.areas.find((one) => one.start <= from && to <= one.end);
        return `${area ? area.title : "the store"}: ${first.path} to ${last.path}`;
    }
    if (from === first.start && to === first.end) return first.path;
    return `${first.path}, bytes ${Math.round(from - first.start)} to ${Math.round(to - first.start)}`;
}
