// The two sides of the page, the store as it is and as the plan leaves it, and the switch between them.
import { announce, el } from "./dom.js";
import { fileAt } from "./model.js";

const TITLES = ["The store as it is", "After the plan"];

/** Which side is shown, and who wants to hear of it. */
export function makeSwitch() {
    const heard = [];
    const side = { after: false };
    side.onChange = (work) => heard.push(work);
    side.set = (after) => {
        if (after === side.after) return;
        side.after = after;
        heard.forEach((work) => work());
        announce(`The page shows: ${TITLES[Number(after)]}.`);
    };
    return side;
}

/** The switch as an element, which stays in sight. */
export function switchBar(side, { tried, untried }) {
    const inputs = TITLES.map((title, at) => {
        const after = at === 1;
        const input = el("input", {
            type: "radio",
            name: "what-if",
            value: after ? "after" : "before",
            onchange: () => side.set(after),
        });
        input.checked = side.after === after;
        side.onChange(() => (input.checked = side.after === after));
        return el("label", {}, input, " ", title);
    });
    const left = untried
        ? `Only findings and their places are after the plan: ${untried}.`
        : tried?.findings.unchecked &&
          `The findings after the plan are those that no action answers: ${tried.findings.unchecked}.`;
    const note = el("p", { hidden: true }, left);
    side.onChange(() => (note.hidden = !(side.after && left)));
    return el(
        "div",
        { class: "what-if" },
        el("fieldset", {}, el("legend", {}, "What if"), inputs),
        left ? note : null,
    );
}

/** Lets one side look at what the other looks at: the same bytes of the same file, and the same finding. */
export function follow(one, other) {
    if (other.model.findings[one.view.finding]?.gone === false) other.view.setFinding(one.view.finding);
    const { from, to } = one.view;
    const file = fileAt(one.model, from);
    const same = file && other.model.files[file.index];
    if (from === 0 && to === one.view.total) other.view.show(0, other.view.total);
    else if (same && same.size > 0) {
        const start = same.start + Math.min(from - file.start, same.size);
        other.view.show(start, start + to - from);
    }
}
