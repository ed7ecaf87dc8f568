// Spans of bytes: looked up by bisection, and cut to what a screen can show.
// Spans are half-open, in order, without overlap: {starts, ends, kinds}, arrays of one length.

/** The first span that ends after a place. */
export function firstAfter(ends, place) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (ends[middle] > place) high = middle;
        else low = middle + 1;
    }
    return low;
}

/**
 * What spans show between two places in so many columns: [{start, end, kind}], what is wrong last.
 *
 * ranks says of each kind how much it matters: 0 is plain. In a column with more than one span, the kind that
 * matters most wins; of plain ones the one with most bytes. What matters is never narrower than one column.
 */
export function cut(spans, from, to, columns, ranks) {
    const low = firstAfter(spans.ends, from);
    let high = low;
    while (high < spans.starts.length && spans.starts[high] < to) high += 1;
    const step = (to - from) / columns;
    return high - low <= columns
        ? plain(spans, low, high, from, to, step, ranks)
        : summed(spans, low, high, from, to, columns, ranks);
}

function plain(spans, low, high, from, to, step, ranks) {
    const parts = [];
    for (let at = low; at < high; at += 1) {
        const kind = spans.kinds[at];
        let start = Math.max(from, spans.starts[at]);
        let end = Math.min(to, spans.ends[at]);
        if (ranks[kind] > 0 && end - start < step) {
            start = Math.max(from, Math.min(start, to - step));
            end = Math.min(to, start + step);
        }
        parts.push({ start, end, kind });
    }
    return parts.sort((one, other) => ranks[one.kind] - ranks[other.kind]);
}

function summed(spans, low, high, from, to, columns, ranks) {
    const kinds = ranks.length;
    const bytes = new Float64Array(columns * kinds);
    const step = (to - from) / columns;
    for (let at = low; at < high; at += 1) {
        const start = Math.max(from, spans.starts[at]);
        const end = Math.min(to, spans.ends[at]);
        const last = Math.min(columns - 1, Math.floor((end - from) / step));
        for (let column = Math.floor((start - from) / step); column <= last; column += 1) {
            const left = Math.max(start, from + column * step);
            const right = Math.min(end, from + (column + 1) * step);
            if (right > left) bytes[column * kinds + spans.kinds[at]] += right - left;
        }
    }
    const parts = [];
    for (let column = 0; column < columns; column += 1) {
        const kind = leading(bytes, column * kinds, ranks);
        if (kind < 0) continue;
        const start = from + column * step;
        const before = parts[parts.length - 1];
        if (before && before.kind === kind && Math.abs(before.end - start) < step / 2)
            before.end = start + step;
        else parts.push({ start, end: start + step, kind });
    }
    return parts;
}

function leading(bytes, at, ranks) {
    let best = -1;
    for (let kind = 0; kind < ranks.length; kind += 1) {
        if (bytes[at + kind] <= 0) continue;
        if (best < 0 || ranks[kind] > ranks[best]) best = kind;
        else if (ranks[kind] === ranks[best] && bytes[at + kind] > bytes[at + best]) best = kind;
    }
    return best;
}

/** Places in so many columns: [{start, end, first, count}], where first is the index of the first place in it. */
export function gathered(places, from, to, columns) {
    const step = (to - from) / columns;
    const cells = new Map();
    for (const { start, end, index, weight = 1, rank = 0 } of places) {
        if (end < from || start >= to) continue;
        const column = Math.min(columns - 1, Math.max(0, Math.floor((start - from) / step)));
        const cell = cells.get(column);
        if (cell) {
            cell.count += weight;
            cell.rank = Math.max(cell.rank, rank);
            cell.end = Math.max(cell.end, Math.min(end, to));
        } else {
            const left = Math.max(from, start);
            cells.set(column, {
                start: left,
                end: Math.min(to, Math.max(end, left)),
                first: index,
                count: weight,
                rank,
            });
        }
    }
    return [...cells.values()].sort((one, other) => one.start - other.start);
}
