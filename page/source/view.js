// What a map looks at: a range of its bytes and a finding; with who wants to hear of changes.
import { framed } from "./dom.js";

/**
 * A view of bytes 0 to total of the map, never narrower than `least` bytes: all of them, or those of one of the areas
 * that they are made of, [{start, end}].
 */
export function makeView(total, areas = [], least = 16) {
    const heard = [];
    const view = { from: 0, to: total, total, finding: null };
    const say = framed(() => heard.forEach((work) => work(view)));

    view.onChange = (work) => heard.push(work);

    view.show = (from, to) => {
        const wide = Math.min(Math.max(Math.round(to - from), Math.min(least, total)), total);
        const middle = (from + to) / 2;
        const area = (wide < total && areas.find((one) => middle < one.end)) || { start: 0, end: total };
        const shown = Math.min(wide, area.end - area.start);
        view.from = Math.min(Math.max(area.start, Math.round(middle - shown / 2)), area.end - shown);
        view.to = view.from + shown;
        say();
    };

    view.zoom = (factor, at = null) => {
        const whole = view.from === 0 && view.to === total;
        if (whole && factor < 1 && areas.length > 1) {
            const { start, end } = areas.find((one) => (at ?? 0) < one.end) ?? areas[0];
            return view.show(start, end);
        }
        if (factor > 1 && areas.some((one) => view.from === one.start && view.to === one.end))
            return view.show(0, total);
        zoomed(factor, at ?? (view.from + view.to) / 2);
    };

    const zoomed = (factor, at) => {
        const wide = Math.max((view.to - view.from) * factor, Math.min(least, total));
        const left = ((at - view.from) / (view.to - view.from)) * wide;
        const from = Math.min(Math.max(0, at - left), Math.max(0, total - wide));
        view.show(from, from + wide);
    };

    view.pan = (part) => {
        const wide = view.to - view.from;
        const step = Math.sign(part) * Math.max(1, Math.abs(wide * part));
        const from = Math.min(Math.max(0, view.from + step), total - wide);
        view.show(from, from + wide);
    };

    view.setFinding = (index) => {
        view.finding = index;
        say();
    };
    return view;
}
