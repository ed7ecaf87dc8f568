// Each kind of bytes has a pattern of its own, so that nobody needs colour to tell them apart.
import { svg } from "./dom.js";

/** Lines of each pattern on a tile of 8 by 8; null: plain. */
const TILES = {
    plain: null,
    open: null,
    rows: ["M0 2H8", "M0 6H8"],
    columns: ["M2 0V8", "M6 0V8"],
    rising: ["M-1 9L9 -1", "M-1 1L1 -1", "M7 9L9 7"],
    falling: ["M-1 -1L9 9", "M7 -1L9 1", "M-1 7L1 9"],
    cross: ["M-1 9L9 -1", "M-1 -1L9 9"],
    grid: ["M4 0V8", "M0 4H8"],
    dots: ["M2 2h1.5", "M6 6h1.5"],
    teeth: ["M0 0L4 8L8 0"],
    dashes: ["M0 4H5"],
    upright: ["M4 2.5V5.5"],
    level: ["M2.5 4H5.5"],
};

/** Puts the patterns of all kinds into the page; charts fill with `url(#kind-NAME)`. */
export function addPatterns(kinds) {
    const made = svg("svg", { class: "patterns", "aria-hidden": "true", width: 0, height: 0 });
    made.appendChild(svg("defs")).append(...kinds.map(pattern));
    document.body.append(made);
}

function pattern(kind) {
    const made = svg("pattern", {
        id: `kind-${kind.id}`,
        width: 8,
        height: 8,
        patternUnits: "userSpaceOnUse",
    });
    made.append(svg("rect", { width: 8, height: 8, class: `ground tone-${kind.tone}` }));
    for (const line of TILES[kind.tile] ?? []) {
        made.append(svg("path", { d: line, class: `lines tone-${kind.tone}` }));
    }
    return made;
}

/** A small sample of a kind, for legends and tables. */
export function sample(kind) {
    const made = svg("svg", { class: "sample", "aria-hidden": "true", width: 28, height: 16 });
    made.append(svg("rect", { width: 28, height: 16, class: "part", fill: `url(#kind-${kind.id})` }));
    return made;
}

/** How kinds look: tile, tone and how much they matter (0: plain). Unknown kinds look like damage. */
export const LOOKS = {
    records: { tile: "plain", tone: "data", rank: 0 },
    units: { tile: "upright", tone: "data", rank: 0 },
    entries: { tile: "level", tone: "data", rank: 0 },
    header: { tile: "rows", tone: "data", rank: 0 },
    slots: { tile: "columns", tone: "data", rank: 0 },
    other: { tile: "dashes", tone: "data", rank: 0 },
    blank: { tile: "open", tone: "none", rank: 0 },
    zero: { tile: "dots", tone: "none", rank: 0 },
    filler: { tile: "rising", tone: "none", rank: 0 },
    unchecked: { tile: "dashes", tone: "none", rank: 1 },
    stale: { tile: "columns", tone: "worn", rank: 2 },
    torn: { tile: "teeth", tone: "bad", rank: 3 },
    damaged: { tile: "cross", tone: "bad", rank: 4 },
};

/** The look of a kind that this table does not have. */
export const UNKNOWN_LOOK = { tile: "grid", tone: "worn", rank: 2 };
