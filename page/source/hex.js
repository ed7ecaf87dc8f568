// Bytes around findings, with the names of fields.
import { el, fill } from "./dom.js";
import { fileAt } from "./model.js";

const WIDE = 16;

function hexAt(window, position) {
    const at = 2 * (position - window.start);
    const pair = window.data.slice(at, at + 2);
    return pair === ".." || pair === "" ? "··" : pair;
}

/** Boxes of bytes and fields of a narrow range of the line, from the windows of the page; null without any. */
export function bytesIn(model, from, to) {
    const file = fileAt(model, from);
    if (!file) return null;
    const window = model.page.windows.find(
        (one) => one.file === file.index && file.start + one.start < to && file.start + one.end > from,
    );
    if (!window) return null;
    const first = Math.max(Math.floor(from - file.start), window.start);
    const last = Math.min(Math.ceil(to - file.start), window.end);
    const bytes = [];
    for (let at = first; at < last; at += 1) {
        bytes.push({
            start: Math.max(from, file.start + at),
            end: Math.min(to, file.start + at + 1),
            label: hexAt(window, at),
        });
    }
    const fields = window.fields
        .filter((field) => field.start < last && field.end > first)
        .map((field) => ({
            start: Math.max(from, file.start + field.start),
            end: Math.min(to, file.start + field.end),
            label: field.name,
        }));
    return { bytes, fields };
}

/** The place where the bytes of the finding that is selected are shown. */
export function hexSection(model, view) {
    const place = el("div", { id: "hex-place" });
    const section = el(
        "section",
        { id: "hex", "aria-labelledby": "hex-title", hidden: true },
        el("h2", { id: "hex-title" }, "Bytes"),
        place,
    );
    let last = null;
    view.onChange(() => {
        const window = windowOf(model, view);
        if (window === last) return;
        last = window;
        section.hidden = !window;
        fill(place, window && tablesOf(model, view, window));
    });
    return section;
}

function windowOf(model, view) {
    const chosen = view.finding === null ? null : model.findings[view.finding];
    if (chosen) return model.page.windows[chosen.window] ?? null;
    const file = fileAt(model, view.from);
    if (!file || view.to - view.from > 4096) return null;
    const inView = (one) =>
        one.file === file.index && file.start + one.start < view.to && file.start + one.end > view.from;
    return model.page.windows.find(inView) ?? null;
}

function tablesOf(model, view, window) {
    const file = model.files[window.file];
    const cells = new Map();
    const lines = [];
    for (let line = window.start - (window.start % WIDE); line < window.end; line += WIDE) {
        const row = [];
        for (let at = line; at < line + WIDE; at += 1) {
            if (at < window.start || at >= window.end) row.push(el("span", {}, "  "), " ");
            else {
                const cell = el("span", { class: at % 2 ? "odd" : "even" }, hexAt(window, at));
                cells.set(at, cell);
                row.push(cell, at % 8 === 7 ? "  " : " ");
            }
        }
        lines.push(el("tr", {}, el("th", { scope: "row" }, String(line)), el("td", {}, row)));
    }
    const light = (field) => {
        for (const [at, cell] of cells)
            cell.classList.toggle("lit", field !== null && at >= field.start && at < field.end);
    };
    const rows = window.fields.map((field) => {
        const go = () => {
            light(field);
            if (file.size > 0) view.show(file.start + field.start, file.start + field.end);
        };
        const button = el(
            "button",
            { type: "button", onclick: go, onfocus: () => light(field), onmouseenter: () => light(field) },
            field.name,
        );
        return el(
            "tr",
            {},
            el("th", { scope: "row" }, button),
            el("td", { class: "number" }, `${field.start}:${field.end}`),
            el("td", {}, field.text),
        );
    });
    const chosen = view.finding === null ? null : model.findings[view.finding];
    if (chosen && chosen.start !== null) light({ start: chosen.start, end: chosen.end ?? chosen.start + 1 });
    const head = (titles) =>
        el(
            "thead",
            {},
            el(
                "tr",
                {},
                titles.map((title) => el("th", { scope: "col" }, title)),
            ),
        );
    return el(
        "div",
        { class: "window" },
        el(
            "p",
            {},
            `${file.path}, bytes ${window.start} to ${window.end}. The page does not show bytes of message bodies (··).`,
        ),
        el(
            "div",
            { class: "beside" },
            el(
                "div",
                { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bytes in hex" },
                el(
                    "table",
                    { class: "hex" },
                    el("caption", {}, "Bytes in hex"),
                    head(["Position", `${WIDE} bytes`]),
                    el("tbody", {}, lines),
                ),
            ),
            rows.length > 0 &&
                el(
                    "div",
                    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Fields" },
                    el(
                        "table",
                        { class: "fields" },
                        el("caption", {}, "Fields"),
                        head(["Field", "Bytes", "Value"]),
                        el("tbody", {}, rows),
                    ),
                ),
        ),
    );
}
