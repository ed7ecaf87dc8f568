// One kind of table for all lists: filtered, sorted, a page of rows at a time, so that 10,000 rows cost no more than 50.
import { announce, count, counted, el, fill } from "./dom.js";

const PHONE = 480;
const ROWS_ON_PHONE = 8;

/**
 * A table over rows that are plain objects.
 *
 * columns: [{name, title, value(row), cell?(row), numeric?, bar?, sort? = true}]; value is what is sorted and
 * filtered by. A column with `bar` has a bar for each number, with the scale of the largest of all rows.
 * options: caption, noun ([one, more]), perPage, filters: [{title, choices: [[name, test]]}], searched (true),
 * sorted: [column, down], rowAttributes(row).
 * Returns {element, setRows(rows), show(row)}.
 */
export function table(columns, options) {
    const { caption, noun = ["row", "rows"], filters = [], searched = true } = options;
    const perPage = Math.min(options.perPage ?? 50, window.innerWidth < PHONE ? ROWS_ON_PHONE : Infinity);
    const state = {
        rows: [],
        kept: [],
        page: 0,
        by: options.sorted?.[0] ?? null,
        down: options.sorted?.[1] ?? false,
        text: "",
    };
    const chosen = filters.map(() => 0);
    const largest = new Map();
    const body = el("tbody");
    const tally = el("p", { class: "tally" });
    const pager = el("div", { class: "pager" });
    const head = el("tr", {}, columns.map(heading));
    const whole = el("table", {}, el("caption", {}, caption), el("thead", {}, head), body);
    const scroll = el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` },
        whole,
    );
    const element = el("div", { class: "listing" }, tools(), tally, scroll, pager);

    function heading(column) {
        const attributes = {
            scope: "col",
            class: column.numeric ? "number" : null,
            "data-column": column.name,
        };
        if (column.sort === false) return el("th", attributes, column.title);
        return el(
            "th",
            attributes,
            el("button", { type: "button", class: "sorter", onclick: () => sortBy(column) }, column.title),
        );
    }

    function tools() {
        const parts = [];
        if (searched) {
            const input = el("input", { type: "search", autocomplete: "off", spellcheck: "false" });
            input.addEventListener("input", () => {
                state.text = input.value.toLowerCase();
                keep();
            });
            parts.push(el("label", {}, "Filter ", input));
        }
        filters.forEach((filter, at) => {
            const choice = el(
                "select",
                {},
                filter.choices.map(([name], number) => el("option", { value: number }, name)),
            );
            choice.addEventListener("change", () => {
                chosen[at] = Number(choice.value);
                keep();
            });
            parts.push(el("label", {}, `${filter.title} `, choice));
        });
        return parts.length > 0
            ? el("div", { class: "tools", role: "group", "aria-label": `Filter: ${caption}` }, parts)
            : null;
    }

    function sortBy(column) {
        state.down = state.by === column.name ? !state.down : Boolean(column.numeric);
        state.by = column.name;
        arrange();
        announce(`sorted by ${column.title}, ${state.down ? "largest first" : "smallest first"}`);
    }

    function keep() {
        const tests = filters.map((filter, at) => filter.choices[chosen[at]][1]).filter(Boolean);
        const asked = state.text;
        const texts = columns.filter((column) => column.search !== false);
        state.kept = state.rows.filter(
            (row) =>
                tests.every((test) => test(row)) &&
                (asked === "" ||
                    texts.some((column) =>
                        String(column.value(row) ?? "")
                            .toLowerCase()
                            .includes(asked),
                    )),
        );
        arrange();
    }

    function arrange() {
        const column = columns.find((one) => one.name === state.by);
        if (column) {
            const sign = state.down ? -1 : 1;
            state.kept.sort((one, other) => compare(column.value(one), column.value(other), sign));
        }
        state.page = 0;
        draw();
    }

    function draw() {
        for (const cell of head.children) {
            const by = cell.dataset.column === state.by;
            if (by) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
            else cell.removeAttribute("aria-sort");
        }
        const pages = Math.max(1, Math.ceil(state.kept.length / perPage));
        state.page = Math.min(state.page, pages - 1);
        const first = state.page * perPage;
        const shownRows = state.kept.slice(first, first + perPage);
        fill(body, shownRows.map(rowOf));
        const all = state.rows.length === state.kept.length ? "" : ` of ${count(state.rows.length)}`;
        const part = pages > 1 ? `, ${count(first + 1)} to ${count(first + shownRows.length)} shown` : "";
        fill(tally, `${counted(state.kept.length, noun[0], noun[1])}${all}${part}`);
        turnPages(pages);
        options.drawn?.(shownRows, body);
    }

    function rowOf(row) {
        const cells = columns.map((column, at) => {
            const content = column.cell ? column.cell(row) : plainly(column.value(row));
            const kind = at === 0 && options.rowHeads !== false ? "th" : "td";
            const attributes = { scope: kind === "th" ? "row" : null, class: column.numeric ? "number" : null };
            const bar = column.bar ? barOf(column.value(row), largest.get(column.name)) : null;
            return el(kind, { ...attributes, "data-title": column.title }, content, bar);
        });
        return el("tr", options.rowAttributes?.(row) ?? {}, cells);
    }

    function turnPages(pages) {
        if (pages === 1) return fill(pager);
        const turn = (title, to) =>
            el(
                "button",
                {
                    type: "button",
                    disabled: to < 0 || to >= pages || to === state.page,
                    onclick: () => go(to, title),
                },
                title,
            );
        return fill(
            pager,
            turn("First", 0),
            turn("Previous", state.page - 1),
            el("span", {}, `Page ${count(state.page + 1)} of ${count(pages)}`),
            turn("Next", state.page + 1),
            turn("Last", pages - 1),
        );
    }

    function go(page, title) {
        state.page = page;
        draw();
        const same = [...pager.querySelectorAll("button")].find(
            (one) => one.textContent === title && !one.disabled,
        );
        (same ?? pager.querySelector("button:not(:disabled)"))?.focus();
        announce(tally.textContent);
    }

    return {
        element,
        setRows(rows) {
            state.rows = rows;
            for (const { name, value } of columns.filter((column) => column.bar)) {
                largest.set(name, rows.reduce((most, row) => Math.max(most, value(row) ?? 0), 0));
            }
            keep();
        },
        /** Turns to the page of a row; false where the filter leaves the row out. */
        show(row) {
            const at = state.kept.indexOf(row);
            if (at < 0) return false;
            state.page = Math.floor(at / perPage);
            draw();
            return true;
        },
    };
}

/** A bar below a number; the number says the same, so readers of the screen do not hear of it. */
function barOf(value, most) {
    if (!(value > 0) || !(most > 0)) return null;
    return el("progress", { class: "bar", max: most, value, "aria-hidden": "true" });
}

function plainly(value) {
    if (value === null || value === undefined) return "";
    return typeof value === "number" ? count(value) : String(value);
}

const WORDS = new Intl.Collator("en", { numeric: true });

/** The order of two values, up (1) or down (-1); what is not there comes last either way. */
function compare(one, other, sign) {
    const none = (one ?? "") === "";
    const otherNone = (other ?? "") === "";
    if (none || otherNone) return none - otherNone;
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * WORDS.compare(String(one), String(other));
}
