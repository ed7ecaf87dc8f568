// Bundles source/ with the plotting library into src/rocketfsck/page/assets, which is part of the wheel.
//
//   node build.mjs             write the assets
//   node build.mjs --check     compare with what is there; exit 1 where they differ
//
// sources.json, next to the assets, has the SHA-256 of each source and of the lock file.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = resolve(here, "../src/rocketfsck/page/assets");

async function bundle(entry) {
  const done = await esbuild.build({
    absWorkingDir: here,
    entryPoints: [join("source", entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target: ["chrome109", "firefox115", "safari16.4"],
    charset: "ascii",
    legalComments: "none",
    metafile: true,
    write: false,
  });
  return { text: done.outputFiles[0].text, inputs: Object.keys(done.metafile.inputs) };
}

/** The licence of each package that a bundle contains; packages with the same text share it. */
function licences(inputs) {
  const names = new Set();
  for (const path of inputs) {
    const found = path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) names.add(found[1]);
  }
  const texts = new Map();
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} has no licence text`);
    const text = readFileSync(join(folder, file), "utf8").trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
  }
  return [...texts].map(([text, owners]) => `${owners.join(", ")}\n\n${text}\n`).join("\n----\n\n");
}

function sources() {
  const files = readdirSync(join(here, "source")).map((name) => `source/${name}`);
  const all = [...files, "build.mjs", "package-lock.json"].sort();
  const hashes = all.map((path) => [
    path,
    createHash("sha256")
      .update(readFileSync(join(here, path)))
      .digest("hex"),
  ]);
  return JSON.stringify(Object.fromEntries(hashes), null, 2) + "\n";
}

const script = await bundle("main.js");
const style = await bundle("page.css");
const made = new Map([
  ["page.js", script.text],
  ["page.css", style.text],
  ["licences.txt", licences(script.inputs)],
  ["sources.json", sources()],
]);
if (process.argv[2] === "--check") {
  const stale = [...made].filter(([name, text]) => {
    const path = join(assets, name);
    return !existsSync(path) || readFileSync(path, "utf8") !== text;
  });
  for (const [name] of stale) console.error(`stale: ${name}; run make page`);
  process.exit(stale.length > 0 ? 1 : 0);
}
mkdirSync(assets, { recursive: true });
for (const [name, text] of made) writeFileSync(join(assets, name), text);
console.log([...made].map(([name, text]) => `${name} ${text.length} bytes`).join(", "));
