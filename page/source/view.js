// What a map looks at: a range of its bytes and a finding; with who wants to hear of changes.
import { framed } from "./dom.js";

/** A view of bytes 0 to total of the map, never narrower than `least` bytes. */
export function makeView(total, least = 16) {
    const heard = [];
    const view = { from: 0, to: total, total, finding: null };
    const say = framed(() => heard.forEach((work) => work(view)));

    view.onChange = (work) => heard.push(work);

    view.show = (from, to) => {
        const wide = Math.min(Math.max(Math.round(to - from), Math.min(least, total)), total);
        const middle = (from + to) / 2;
        const start = Math.min(Math.max(0, Math.round(middle - wide / 2)), total - wide);
        view.from = start;
        view.to = start + wide;
        say();
    };

    view.zoom = (factor, at = (view.from + view.to) / 2) => {
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
