// The report page: reads the document in the page and builds all sections from it.
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
import { timelineSection } from "./timeline.js";
import { madeOf, startsSection, verdictSection } from "./verdict.js";
import { makeView } from "./view.js";

function storeSections(page) {
    const model = makeModel(page);
    const view = makeView(model.total);
    addPatterns([...model.kinds, ...FATES]);
    const findings = findingsSection(model, view);
    const plan = planSection(model, view);
    const links = { finding: (index) => findings.open(index) };
    const open = () => openFragment(findings, plan);
    window.addEventListener("hashchange", open);
    document.addEventListener("click", (event) => {
        const link = event.target.closest?.("a[data-action]");
        if (!link) return;
        event.preventDefault();
        plan?.show(Number(link.dataset.action));
    });
    const sections = [
        verdictSection(model, view),
        startsSection(model, view),
        model.total > 0 ? mapSection(model, view, links) : null,
        hexSection(model, view),
        findings.element,
        plan?.element,
        damageSection(model, view),
        filesSection(model, view),
        timelineSection(model, view),
        queuesSection(model),
        indexSection(model, view),
    ].filter(Boolean);
    return { sections, open, made: madeOf(page) };
}

function openFragment(findings, plan) {
    const found = window.location.hash.match(/^#(finding|action)-(\d{1,7})$/);
    if (found && found[1] === "finding") findings.open(Number(found[2]));
    if (found && found[1] === "action") plan?.show(Number(found[2]));
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
    const { sections, open, made } = fleet ? { sections: fleetSections(page) } : storeSections(page);
    main.replaceChildren(...sections);
    document.getElementById("top").append(contents(sections));
    document.getElementById("foot").append(...[made, licences()].filter(Boolean));
    document.documentElement.dataset.ready = "yes";
    open?.();
}

build();
