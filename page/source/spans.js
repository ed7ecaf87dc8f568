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
 * What spans show between two places in so many columns: [{start, end, kind, low, high}]. Ink is in proportion to
 * bytes: where a column has several kinds, each takes as much of its height, from `low` to `high` of 1, as it has
 * of its bytes, what matters most on top. `ranks` says of each kind how much it matters: 0 is plain.
 */
export function cut(spans, from, to, columns, ranks) {
    const low = firstAfter(spans.ends, from);
    let high = low;
    while (high < spans.starts.length && spans.starts[high] < to) high += 1;
    return high - low <= columns
        ? plain(spans, low, high, from, to)
        : stacked(spans, from, to, columns, ranks);
}

function plain(spans, low, high, from, to) {
    const parts = [];
    for (let at = low; at < high; at += 1) {
        parts.push({
            start: Math.max(from, spans.starts[at]),
            end: Math.min(to, spans.ends[at]),
            kind: spans.kinds[at],
            low: 0,
            high: 1,
        });
    }
    return parts;
}

/** How many bytes of each kind are in each column between two places: `columns` times `kinds` numbers. */
export function shares(spans, from, to, columns, kinds) {
    const bytes = new Float64Array(columns * kinds);
    const step = (to - from) / columns;
    for (let at = firstAfter(spans.ends, from); at < spans.starts.length && spans.starts[at] < to; at += 1) {
        const start = Math.max(from, spans.starts[at]);
        const end = Math.min(to, spans.ends[at]);
        const last = Math.min(columns - 1, Math.floor((end - from) / step));
        for (let column = Math.floor((start - from) / step); column <= last; column += 1) {
            const left = Math.max(start, from + column * step);
            const right = Math.min(end, from + (column + 1) * step);
            if (right > left) bytes[column * kinds + spans.kinds[at]] += right - left;
        }
    }
    return bytes;
}

function stacked(spans, from, to, columns, ranks) {
    const bytes = shares(spans, from, to, columns, ranks.length);
    const step = (to - from) / columns;
    const order = [...ranks.keys()].sort((one, other) => ranks[other] - ranks[one] || one - other);
    const parts = [];
    let whole = null; // the last part that is as high as the lane, which the next column may continue
    for (let column = 0; column < columns; column += 1) {
        const start = from + column * step;
        let low = 0;
        for (const kind of order) {
            const part = bytes[column * ranks.length + kind] / step;
            if (part <= 0) continue;
            const high = Math.min(1, low + part);
            const full = low === 0 && high > 0.9999;
            if (full && whole?.kind === kind && Math.abs(whole.end - start) < step / 2) whole.end = start + step;
            else {
                parts.push({ start, end: start + step, kind, low, high: full ? 1 : high });
                whole = full ? parts[parts.length - 1] : null;
            }
            low = high;
        }
        if (low === 0) whole = null;
    }
    return parts;
}

/** Pairs [start, end] in order, without overlap. */
export function mergedSpans(places) {
    const merged = [];
    for (const [start, end] of [...places].sort((one, other) => one[0] - other[0])) {
        const last = merged[merged.length - 1];
        if (last && start <= last[1]) last[1] = Math.max(last[1], end);
        else merged.push([start, end]);
    }
    return merged;
}

/**
 * Places in so many columns: [{start, end, first, worst, count, rank}], where first is the index of the first
 * place in it, and worst that of the first one of the highest rank.
 */
export function gathered(places, from, to, columns) {
    const step = (to - from) / columns;
    const cells = new Map();
    for (const { start, end, index, weight = 1, rank = 0 } of places) {
        if (end < from || start >= to) continue;
        const column = Math.min(columns - 1, Math.max(0, Math.floor((start - from) / step)));
        const cell = cells.get(column);
        if (cell) {
            cell.count += weight;
            if (rank > cell.rank) cell.worst = index;
            cell.rank = Math.max(cell.rank, rank);
            cell.end = Math.max(cell.end, Math.min(end, to));
        } else {
            const left = Math.max(from, start);
            cells.set(column, {
                start: left,
                end: Math.min(to, Math.max(end, left)),
                first: index,
                worst: index,
                count: weight,
                rank,
            });
        }
    }
    return [...cells.values()].sort((one, other) => one.start - other.start);
}
