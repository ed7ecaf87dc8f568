// Charts are drawn by Observable Plot, one function for the settings that all of them share.
import { plot } from "@observablehq/plot";

/**
 * A chart as SVG. The page has tables with the same content, so charts are hidden from screen readers.
 *
 * Plot puts its few rules of style into each chart; the page has them in its own style sheet, and its policy
 * allows no other.
 */
export function chart(options) {
    const made = plot({ className: "chart", style: { background: "none" }, ...options });
    for (const sheet of made.querySelectorAll("style")) sheet.remove();
    made.setAttribute("aria-hidden", "true");
    made.setAttribute("focusable", "false");
    return made;
}
