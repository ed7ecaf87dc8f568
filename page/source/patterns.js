// Each kind of bytes has a pattern of its own, so that nobody needs colour to tell them apart.

const NS = "http://www.w3.org/2000/svg";

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
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("class", "patterns");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("width", "0");
    svg.setAttribute("height", "0");
    const defs = svg.appendChild(document.createElementNS(NS, "defs"));
    for (const kind of kinds) defs.append(pattern(kind));
    document.body.append(svg);
}

function pattern(kind) {
    const made = document.createElementNS(NS, "pattern");
    made.id = `kind-${kind.id}`;
    for (const [name, value] of [
        ["width", 8],
        ["height", 8],
        ["patternUnits", "userSpaceOnUse"],
    ]) {
        made.setAttribute(name, value);
    }
    const ground = made.appendChild(document.createElementNS(NS, "rect"));
    ground.setAttribute("width", 8);
    ground.setAttribute("height", 8);
    ground.setAttribute("class", `ground tone-${kind.tone}`);
    for (const line of TILES[kind.tile] ?? []) {
        const path = made.appendChild(document.createElementNS(NS, "path"));
        path.setAttribute("d", line);
        path.setAttribute("class", `lines tone-${kind.tone}`);
    }
    return made;
}

/** A small sample of a kind, for legends and tables. */
export function sample(kind) {
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("class", "sample");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("width", 28);
    svg.setAttribute("height", 16);
    const rect = svg.appendChild(document.createElementNS(NS, "rect"));
    rect.setAttribute("width", 28);
    rect.setAttribute("height", 16);
    rect.setAttribute("class", "part");
    rect.setAttribute("fill", `url(#kind-${kind.id})`);
    return svg;
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
