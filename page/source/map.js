// The map: all bytes of the store, each part with its own scale, from the whole store down to a byte.
import { announce, announceDrawn, count, counted, el, fill, onWidth, share, size } from "./dom.js";
import { drawn, lanesOf, mergedPlaces, rankOf } from "./lanes.js";
import { FATES, fileAt, placeName } from "./model.js";
import { byPointer, goToField } from "./moving.js";
import { sample } from "./patterns.js";
import { firstAfter } from "./spans.js";

const KEYS = [
    ["+ and -", "zoom in and out"],
    ["Left and Right", "move by a tenth of the view; with Shift by a whole view"],
    ["Up and Down", "the file before and the file after"],
    ["N and P", "the next and the previous finding"],
    ["W", "the next of the worst findings"],
    ["G", "go to a physical offset, a file, or a position in a file"],
    ["Enter", "the text of the finding that is selected"],
    ["B", "bytes: zoom in until each byte has its own box"],
    ["0 or Home", "the whole store"],
];

/** The section with the map. `links` opens texts of findings: {finding(index)}. */
export function mapSection(model, view, links) {
    const canvas = el("div", { class: "canvas" });
    const where = el("p", { class: "where", id: "map-where" });
    const stage = el(
        "div",
        {
            class: "stage",
            role: "application",
            tabindex: "0",
            id: "map-stage",
            "aria-label": "Map of the store",
            "aria-describedby": "map-where map-keys",
        },
        canvas,
    );
    const trail = el("nav", { class: "trail", "aria-label": "Place on the map" });
    const content = el("div", { class: "content" });
    let width = 0;
    const listed = model.findings.filter((finding) => finding.at !== null && !finding.gone);
    const order = [...listed].sort((one, other) => one.at - other.at || one.index - other.index);
    const repairs = mergedPlaces(model);

    function draw() {
        if (width === 0) return;
        const pieces = model.areas.filter((area) => area.end > Math.max(area.start, view.from) && area.start < view.to);
        fill(canvas, pieces.map((area) => drawnArea(model, view, area, pieces.length > 1, listed, repairs, width)));
        fill(where, placeName(model, view.from, view.to), ` (${size(view.to - view.from)})`);
        fill(trail, crumbs(model, view));
        fill(content, contentOf(model, view, order, links));
    }

    const goTo = goToField(model, view, where);
    const act = { ...actions(model, view, order, links, where), g: () => goTo.querySelector("input").focus() };
    stage.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const work = act[event.key.length === 1 ? event.key.toLowerCase() : event.key];
        if (!work) return;
        event.preventDefault();
        work(event.shiftKey);
    });
    byPointer(canvas, view);
    onWidth(canvas, (now) => {
        width = now;
        draw();
    });
    view.onChange(draw);

    const button = (title, work) => el("button", { type: "button", onclick: () => work(false) }, title);
    return el(
        "section",
        { id: "map", "aria-labelledby": "map-title" },
        el("h2", { id: "map-title" }, "Map"),
        el("p", {}, mapIntroduction(model)),
        el(
            "div",
            { class: "tools", role: "group", "aria-label": "Move on the map" },
            button("Zoom in", act["+"]),
            button("Zoom out", act["-"]),
            button("Back", act.ArrowLeft),
            button("Forward", act.ArrowRight),
            button("Previous file", act.ArrowUp),
            button("Next file", act.ArrowDown),
            listed.length > 0 && button("Previous finding", act.p),
            listed.length > 0 && button("Next finding", act.n),
            listed.length > 0 && button("Next worst", act.w),
            button("Bytes", act.b),
            button("Whole store", act["0"]),
            goTo,
        ),
        trail,
        where,
        stage,
        legend(model),
        content,
        el(
            "details",
            { class: "keys" },
            el("summary", {}, "Keys of the map"),
            el(
                "dl",
                { id: "map-keys" },
                KEYS.map(([keys, meaning]) => [el("dt", {}, keys), el("dd", {}, meaning)]),
            ),
        ),
    );
}

/** The lanes of an area as far as the view has it; next to others only those that have something in them. */
function drawnArea(model, view, area, isOne, listed, repairs, width) {
    const from = Math.max(view.from, area.start);
    const to = Math.min(view.to, area.end);
    const part = { from, to, finding: view.finding, isOne }; // of several: coarser, with as much ink
    const lanes = lanesOf(model, part, listed, repairs, width);
    const scale = `${area.title}, ${counted(area.files.filter((file) => file.size > 0).length, "file")}, ${size(area.end - area.start)}`;
    const isLog = area.family === "commitlog";
    lanes[0].title = isOne ? scale : lanes[0].title;
    if (isOne && !isLog) lanes[1].title = scale;
    const wanted = (lane, at) =>
        at === 1 || (at === 0 && isLog) || (at > 1 && (lane.parts ?? lane.marks).length > 0);
    return drawn(model, part, isOne ? lanes.filter(wanted) : lanes, width, area, isOne);
}

function mapIntroduction(model) {
    const scale = `All ${counted(model.laid.length, "file")} with content, ${size(model.total)}: each part of the store with its own scale, in which bytes are true to size.`;
    return model.page.map.is_walked
        ? scale
        : `${scale} The page was made without the store, so the map shows sizes and findings only.`;
}

function legend(model) {
    const used = new Set(model.spans.kinds);
    const kinds = model.kinds.filter((_, index) => used.has(index));
    const fates = model.starts.some((start) => start.loads) ? FATES.slice(0, 3) : [];
    if (model.actions.length > 0) fates.push(FATES[3]);
    const entry = (kind) => el("li", { title: kind.meaning || null }, sample(kind), " ", kind.title);
    return el(
        "ul",
        { class: "legend", "aria-label": "Patterns of the map" },
        [...kinds, ...fates].map(entry),
    );
}

function crumbs(model, view) {
    const parts = [["Store", 0, model.total]];
    const area = model.areas.find((one) => one.start <= view.from && view.to <= one.end);
    const file = fileAt(model, view.from);
    if (area && model.areas.length > 1) parts.push([area.title, area.start, area.end]);
    if (file && view.to <= file.end) parts.push([file.path, file.start, file.end]);
    const items = parts.map(([title, from, to]) => {
        const here = view.from === from && view.to === to;
        return el(
            "li",
            {},
            el(
                "button",
                { type: "button", "aria-current": here ? "true" : null, onclick: () => view.show(from, to) },
                title,
            ),
        );
    });
    return el("ol", {}, items);
}

function contentOf(model, view, order, links) {
    const { from, to } = view;
    const bytes = new Float64Array(model.kinds.length);
    const { starts, ends, kinds } = model.spans;
    for (let at = firstAfter(ends, from); at < starts.length && starts[at] < to; at += 1) {
        bytes[kinds[at]] += Math.min(to, ends[at]) - Math.max(from, starts[at]);
    }
    const rows = model.kinds
        .map((kind, index) => ({ kind, bytes: bytes[index] }))
        .filter((row) => row.bytes > 0)
        .sort((one, other) => other.bytes - one.bytes);
    const inView = order
        .filter((finding) => finding.to > from && finding.at < to)
        .sort((one, other) => rankOf(other.rule.severity) - rankOf(one.rule.severity));
    const crowds = model.crowds.filter((crowd) => crowd.end > from && crowd.start < to);
    const all = inView.length + crowds.reduce((sum, crowd) => sum + crowd.weight, 0);
    const item = (finding) =>
        el(
            "li",
            {},
            el(
                "a",
                {
                    href: `#finding-${finding.index}`,
                    "aria-current": finding.index === view.finding ? "true" : null,
                    onclick: (event) => {
                        event.preventDefault();
                        links.finding(finding.index);
                    },
                },
                `${finding.rule.severity}: ${finding.rule.rule} ${finding.message}`,
            ),
        );
    return el(
        "div",
        { class: "beside" },
        el(
            "table",
            { class: "small" },
            el("caption", {}, "Content of this view"),
            el(
                "thead",
                {},
                el(
                    "tr",
                    {},
                    ["Kind", "Size", "Share"].map((title, at) =>
                        el("th", { scope: "col", class: at > 0 ? "number" : null }, title),
                    ),
                ),
            ),
            el(
                "tbody",
                {},
                rows.map((row) =>
                    el(
                        "tr",
                        {},
                        el("th", { scope: "row" }, row.kind.title),
                        el("td", { class: "number" }, size(row.bytes)),
                        el("td", { class: "number" }, share(row.bytes, to - from)),
                    ),
                ),
            ),
        ),
        el(
            "div",
            {},
            el(
                "h3",
                {},
                all === 0 ? "No finding in this view" : `${counted(all, "finding")} in this view`,
            ),
            el("ol", { class: "found" }, inView.slice(0, 8).map(item)),
            inView.length > 8 && el("p", {}, `${count(inView.length - 8)} more: zoom in to see them.`),
            all > inView.length && el("p", {}, `${count(all - inView.length)} are only counted.`),
        ),
    );
}

function actions(model, view, order, links, where) {
    const go = (work) => (shift) => {
        work(shift);
        announceDrawn(() => where.textContent);
    };
    const step = (way) => () => {
        const at = fileAt(model, view.from);
        if (!at) return;
        const whole = view.from === at.start && view.to === at.end;
        const next = whole
            ? model.laid[Math.min(model.laid.length - 1, Math.max(0, model.laid.indexOf(at) + way))]
            : at;
        view.show(next.start, next.end);
    };
    const worst = [...order].sort((one, other) => rankOf(other.rule.severity) - rankOf(one.rule.severity));
    const find = (way, among = order) => () => {
        if (among.length === 0) return;
        const now = among.findIndex((finding) => finding.index === view.finding);
        const next =
            among[now < 0 ? (way > 0 ? 0 : among.length - 1) : (now + way + among.length) % among.length];
        view.setFinding(next.index);
        showFinding(view, next);
        announce(`${next.rule.rule}: ${next.message}`);
    };
    const bytes = () => {
        const chosen = view.finding === null ? null : model.findings[view.finding];
        const place = chosen && chosen.at !== null ? chosen.at : Math.round((view.from + view.to) / 2);
        view.show(place, place + 16);
    };
    return {
        "+": go(() => view.zoom(0.5)),
        "=": go(() => view.zoom(0.5)),
        "-": go(() => view.zoom(2)),
        ArrowLeft: go((shift) => view.pan(shift ? -1 : -0.1)),
        ArrowRight: go((shift) => view.pan(shift ? 1 : 0.1)),
        ArrowUp: go(step(-1)),
        ArrowDown: go(step(1)),
        n: find(1),
        p: find(-1),
        w: find(1, worst),
        b: go(bytes),
        0: go(() => view.show(0, model.total)),
        Home: go(() => view.show(0, model.total)),
        Enter: () => view.finding !== null && links.finding(view.finding),
    };
}

/** Shows a finding with as much again on each side. */
export function showFinding(view, finding) {
    if (finding.at === null) return;
    const wide = Math.max(32, finding.to - finding.at);
    view.show(finding.at - wide, finding.to + wide);
}
