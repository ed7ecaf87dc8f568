// What starts keep, cut and hide, as lanes of the map.
import { firstAfter } from "./spans.js";

/** The spans that a start keeps, cuts and hides, as indices of FATES. */
export function laneOf(start, index, model) {
    const logs = model.laid.filter((file) => file.family === "commitlog" && file.base >= 0);
    const spans = { starts: [], ends: [], kinds: [] };
    const deleted = new Set(start.files.filter((fate) => fate.change === "deleted").map((fate) => fate.file));
    const low = start.min_offset ?? -Infinity;
    const high = start.cut_offset ?? Infinity;
    for (const file of logs) {
        if (!start.loads) continue;
        const from = Math.min(Math.max(low, file.base), file.base + file.size);
        const to = Math.max(from, Math.min(high, file.base + file.size));
        const add = (left, right, kind) => {
            if (right <= left) return;
            spans.starts.push(file.start + left - file.base);
            spans.ends.push(file.start + right - file.base);
            spans.kinds.push(kind);
        };
        const whole = deleted.has(file.path);
        if (!whole) add(from, to, 0);
        for (const [left, right] of written(model, file, whole ? file.start : file.start + to - file.base)) {
            add(left - file.start + file.base, right - file.start + file.base, 1);
        }
    }
    const over = [];
    for (const [ranges, kind] of [
        [start.cut_count === 0 ? [] : start.cut, 1],
        [start.hidden_count === 0 ? [] : start.hidden, 2],
    ]) {
        for (const range of ranges) {
            for (const file of logs) {
                const from = Math.max(range.start_offset, file.base);
                const to = Math.min(range.end_offset, file.base + file.size);
                if (to > from)
                    over.push({
                        start: file.start + from - file.base,
                        end: file.start + to - file.base,
                        kind,
                    });
            }
        }
    }
    return { ...start, index, spans, over };
}

/** The ranges of a file from a place on that hold something: what a broker cuts of zeros is no loss. */
function written(model, file, from) {
    const { starts, ends, kinds } = model.spans;
    const ranges = [];
    for (let at = firstAfter(ends, from); at < starts.length && starts[at] < file.end; at += 1) {
        if (model.kinds[kinds[at]].name === "zero") continue;
        ranges.push([Math.max(from, starts[at]), Math.min(file.end, ends[at])]);
    }
    return ranges;
}

/** Starts that keep and cut the same, together: brokers of many versions do. */
export function startLanes(model) {
    const lanes = new Map();
    for (const start of model.starts.filter((one) => one.loads)) {
        const key = JSON.stringify([start.spans, start.over]);
        const lane = lanes.get(key);
        if (lane) lane.versions.push(start.versions);
        else lanes.set(key, { versions: [start.versions], spans: start.spans, over: start.over });
    }
    return [...lanes.values()];
}
