// The report page: reads the document in the page and builds all sections from it.
import { hasPlan, pageAfter } from "./after.js";
import { el } from "./dom.js";
import { findingsSection, planSection } from "./findings.js";
import { damageSection, filesSection } from "./files.js";
import { fleetSections } from "./fleet.js";
import { hexSection } from "./hex.js";
import { indexSection } from "./indexes.js";
import { mapSection } from "./map.js";
import { FATES, makeModel } from "./model.js";
import { addPatterns } from "./patterns.js";
import { queuesSection } from "./queues.js";
import { retentionSection } from "./retention.js";
import { follow, makeSwitch, switchBar } from "./sides.js";
import { timelineSection } from "./timeline.js";
import { madeOf, startsSection, verdictSection } from "./verdict.js";
import { makeView } from "./view.js";

/** All sections of one side of the page that are drawn from its model. */
function sideOf(page, after) {
    const model = makeModel(page, after);
    const view = makeView(model.total, model.areas.filter((area) => area.end > area.start));
    const findings = findingsSection(model, view);
    const plan = planSection(model, view);
    const links = { finding: (index) => findings.open(index) };
    const sections = [
        startsSection(model, view),
        model.total > 0 ? mapSection(model, view, links) : null,
        hexSection(model, view),
        findings.element,
        plan?.element,
        damageSection(model, view),
        filesSection(model, view),
        retentionSection(model),
        timelineSection(model, view),
        queuesSection(model),
        indexSection(model, view),
    ].filter(Boolean);
    return { model, view, findings, plan, sections };
}

function storeSections(page, main) {
    const side = makeSwitch();
    const before = sideOf(page, false);
    let after = null;
    let now = before;
    const lastFinding = before.model.findings.length + (page.plan?.tried?.findings.rows.rule.length ?? 0);
    addPatterns([...before.model.kinds, ...FATES]);
    side.onChange(() => {
        const last = now;
        after ??= sideOf(pageAfter(page), true);
        now = side.after ? after : before;
        follow(last, now);
        last.sections.forEach((section) => section.remove());
        main.append(...now.sections);
        main.classList.toggle("after", side.after);
        fillContents([main.firstElementChild, ...now.sections]);
    });
    const open = () => {
        const found = window.location.hash.match(/^#(finding|action)-(\d{1,7})$/);
        if (!found) return;
        const row = Number(found[2]);
        if (found[1] === "action") return void now.plan?.show(row);
        const finding = now.model.findings[row];
        if (finding?.gone) side.set(false);
        else if (!finding && row < lastFinding) side.set(true);
        now.findings.open(row);
    };
    window.addEventListener("hashchange", open);
    document.addEventListener("click", (event) => {
        const link = event.target.closest?.("a[data-action]");
        if (!link) return;
        event.preventDefault();
        now.plan?.show(Number(link.dataset.action));
    });
    const top = verdictSection(before.model, before.view, side);
    const bar = hasPlan(page) ? switchBar(side, page.plan) : null;
    return { sections: [top, bar, ...before.sections].filter(Boolean), open, made: madeOf(page) };
}

/** Puts links to the sections on top of the page. */
function fillContents(sections) {
    const top = document.getElementById("top");
    top.querySelector("nav.contents")?.remove();
    top.append(contents(sections.filter((section) => section.id)));
}

function contents(sections) {
    const items = sections
        .filter((section) => !section.hidden)
        .map((section) =>
            el(
                "li",
                {},
                el(
                    "a",
                    { href: `#${section.id}` },
                    section.id === "verdict" ? "Verdict" : section.querySelector("h2").textContent,
                ),
            ),
        );
    return el("nav", { class: "contents", "aria-label": "Sections" }, el("ul", {}, items));
}

/** What is folded is printed, too; it is folded again afterwards. */
function unfoldForPrint() {
    let opened = [];
    window.addEventListener("beforeprint", () => {
        const folded = document.querySelectorAll("main details:not([open]):not(.keys)");
        opened = [...folded].slice(0, PRINTED);
        for (const part of opened) part.open = true;
    });
    window.addEventListener("afterprint", () => {
        for (const part of opened) part.open = false;
        opened = [];
    });
}

const PRINTED = 500;

function licences() {
    const source = document.getElementById("licences");
    if (!source) return null;
    const text = el("pre", { tabindex: "0", role: "region", "aria-label": "Licences" });
    const unfolded = el(
        "details",
        { class: "licences" },
        el("summary", {}, "Licences of the libraries in this page"),
        text,
    );
    unfolded.addEventListener("toggle", () => (text.textContent = JSON.parse(source.textContent)));
    return unfolded;
}

function build() {
    const page = JSON.parse(document.getElementById("document").textContent);
    const main = document.getElementById("main");
    const fleet = page.kind === "rocketfsck.page.fleet";
    const { sections, open, made } = fleet ? { sections: fleetSections(page) } : storeSections(page, main);
    main.replaceChildren(...sections);
    fillContents(sections);
    document.getElementById("foot").append(...[made, licences()].filter(Boolean));
    unfoldForPrint();
    document.documentElement.dataset.ready = "yes";
    open?.();
}

build();
