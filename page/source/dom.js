// Elements and texts. Texts of the store become text nodes only, with what cannot be seen spelled out.

const UNSEEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;

/** A text with control characters, marks of direction and lone surrogates as \uXXXX. */
export function shown(text) {
    return String(text).replace(UNSEEN, (mark) => "\\u" + mark.codePointAt(0).toString(16).padStart(4, "0"));
}

/** An element. Attributes that start with "on" are listeners; children are nodes, texts, lists of them or null. */
export function el(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
        else made.setAttribute(key, value === true ? "" : String(value));
    }
    put(made, children);
    return made;
}

/** An element of SVG. */
export function svg(name, attributes = {}) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    return made;
}

/** An element of SVG with words that a pointer over it shows. */
export function titled(element, words) {
    const title = svg("title");
    title.textContent = words;
    element.append(title);
    return element;
}

function put(parent, children) {
    for (const child of children) {
        if (child === null || child === undefined || child === false) continue;
        if (Array.isArray(child)) put(parent, child);
        else parent.append(child instanceof Node ? child : document.createTextNode(shown(child)));
    }
}

/** Replaces what an element contains. */
export function fill(parent, ...children) {
    parent.replaceChildren();
    put(parent, children);
    return parent;
}

/** A text of the store in an element of its own, so that its direction of writing changes nothing around it. */
export function own(text, name = "bdi") {
    return el(name, { class: "own" }, text);
}

const COUNTS = new Intl.NumberFormat("en");

/** A count with separators. */
export const count = (number) => COUNTS.format(number);

/** A count and its noun: "1 file", "2 files". */
export const counted = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A size: "1 byte", "512 bytes", "1.5 GiB". */
export function size(bytes) {
    let unit = 0;
    let amount = bytes;
    while (amount >= 1024 && unit < UNITS.length - 1) {
        amount /= 1024;
        unit += 1;
    }
    if (unit === 0) return counted(bytes, "byte");
    return `${amount >= 100 ? Math.round(amount) : Number(amount.toFixed(1))} ${UNITS[unit]}`;
}

/** Per cent of a whole, never rounded to nothing or to all. */
export function share(part, whole) {
    if (whole <= 0 || part <= 0) return "0 %";
    const per = (100 * part) / whole;
    if (per < 0.1) return "under 0.1 %";
    if (per > 99.9 && part < whole) return "over 99.9 %";
    return `${Number(per.toFixed(1))} %`;
}

/** A point in time in UTC, from milliseconds; what no calendar has is shown as the number. */
export function time(ms) {
    if (ms === null || ms === undefined) return "";
    const date = new Date(ms);
    if (Number.isNaN(date.getTime())) return `${ms} ms`;
    return date
        .toISOString()
        .replace("T", " ")
        .replace(/\.000Z$|Z$/, "Z");
}

let said = 0;

/** Says something to readers of the screen. */
export function announce(text) {
    said += 1;
    const place = document.getElementById("announced");
    if (place) place.textContent = shown(text);
}

/** Says what is shown once the page has been drawn, unless something else was said until then. */
export function announceDrawn(text) {
    const before = (said += 1);
    requestAnimationFrame(() => requestAnimationFrame(() => said === before && announce(text())));
}

/** Runs a function at most once a frame. */
export function framed(work) {
    let asked = false;
    return () => {
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => {
            asked = false;
            work();
        });
    };
}

/** Calls back with the width of an element, now and whenever the width changes. */
export function onWidth(element, work) {
    let last = 0;
    const look = framed(() => {
        const width = Math.floor(element.clientWidth);
        if (width > 0 && width !== last) {
            last = width;
            work(width);
        }
    });
    new ResizeObserver(look).observe(element);
}
