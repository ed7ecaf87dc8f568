// Ways to a place of the map: a field to type one, the mouse, the finger.
import { announce, announceDrawn, el } from "./dom.js";

/** A field for a place: a physical offset, a file, or FILE:POSITION. */
export function goToField(model, view, where) {
    const input = el("input", {
        type: "text",
        size: "22",
        spellcheck: "false",
        autocomplete: "off",
        placeholder: "303001 or FILE:POSITION",
    });
    input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        const found = placeOf(model, input.value.trim());
        if (!found) return void announce("No such place in the store");
        view.show(found[0], found[1]);
        announceDrawn(() => where.textContent);
    });
    return el("label", {}, "Go to ", input);
}

/** Where a text leads on the line of all bytes, as [from, to]; null for nowhere. */
function placeOf(model, text) {
    if (/^[0-9]{1,19}$/.test(text)) {
        const offset = Number(text);
        const file = model.laid.find(
            (one) => one.family === "commitlog" && one.base >= 0 && one.base <= offset && offset < one.base + one.size,
        );
        if (file) return near(file, offset - file.base);
    }
    const [, name, pos] = text.match(/^(.*?)(?::([0-9]{1,15}))?$/);
    const file = name && model.laid.find((one) => one.path === name || one.path.endsWith(`/${name}`));
    if (!file) return null;
    return pos === undefined ? [file.start, file.end] : Number(pos) < file.size ? near(file, Number(pos)) : null;
}

const near = (file, pos) => [file.start + Math.max(0, pos - 128), file.start + Math.min(file.size, pos + 128)];

/** Drag to move, double-click and the wheel to zoom. */
export function byPointer(canvas, view) {
    let grip = null;
    const place = (event) => {
        const box = canvas.getBoundingClientRect();
        const part = Math.min(1, Math.max(0, (event.clientX - box.left - 10) / Math.max(1, box.width - 20)));
        const chart = event.target.closest?.("svg[data-from]"); // one of several, each with its own scale
        const [from, to] = chart ? [Number(chart.dataset.from), Number(chart.dataset.to)] : [view.from, view.to];
        return from + part * (to - from);
    };
    canvas.addEventListener("pointerdown", (event) => {
        if (event.button === 0) grip = { x: event.clientX, from: view.from, to: view.to, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
        if (!grip || Math.abs(event.clientX - grip.x) < 4) return;
        grip.moved = true;
        const move =
            ((grip.x - event.clientX) / Math.max(1, canvas.clientWidth - 20)) * (grip.to - grip.from);
        const from = Math.min(Math.max(0, grip.from + move), view.total - (grip.to - grip.from));
        view.show(from, from + grip.to - grip.from);
    });
    window.addEventListener("pointerup", () => (grip = null));
    canvas.addEventListener("dblclick", (event) => {
        event.preventDefault();
        view.zoom(event.shiftKey ? 4 : 0.25, place(event));
    });
    canvas.addEventListener(
        "wheel",
        (event) => {
            if (!event.ctrlKey && !event.shiftKey) return;
            event.preventDefault();
            view.zoom(event.deltaY + event.deltaX > 0 ? 1.4 : 1 / 1.4, place(event));
        },
        { passive: false },
    );
}
