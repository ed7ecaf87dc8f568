// Compiles specs/ksy/*.ksy to the Python readers in generated/.
//
//   node build.mjs             write them
//   node build.mjs --check     compare with what is there; exit 1 where they differ
//   node build.mjs --to DIR    write them to DIR instead
//
// sources.json, beside the readers, has the SHA-256 of the spec that each was compiled from.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { createHash } from "node:crypto";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import yaml from "js-yaml";
import KaitaiStructCompiler from "kaitai-struct-compiler";

const here = dirname(fileURLToPath(import.meta.url));
const specs = resolve(here, "../../specs/ksy");
const args = process.argv.slice(2);
const target = args[0] === "--to" ? resolve(args[1]) : join(here, "generated");

const load = (name) => yaml.load(readFileSync(join(specs, `${name}.ksy`), "utf8"));
const importer = { importYaml: async (name) => load(name) };

async function compileAll() {
  const files = new Map();
  const sources = {};
  for (const file of readdirSync(specs).filter((name) => name.endsWith(".ksy")).sort()) {
    const name = basename(file, ".ksy");
    const spec = load(name);
    sources[name] = createHash("sha256").update(readFileSync(join(specs, file))).digest("hex");
    if (spec.meta.id !== name) throw new Error(`${file}: meta/id is ${spec.meta.id}`);
    const compiled = await KaitaiStructCompiler.compile("python", spec, importer, false);
    for (const [path, text] of Object.entries(compiled)) {
      // The readers live in one package: they find each other in it.
      const local = text.replace(/^import (rocketmq_\w+)$/gm, "from . import $1").trimEnd() + "\n";
      if (files.has(path) && files.get(path) !== local) throw new Error(`${path}: compiled twice, differently`);
      files.set(path, local);
    }
  }
  files.set("sources.json", JSON.stringify(sources, null, 2) + "\n");
  return files;
}

const files = await compileAll();
if (args[0] === "--check") {
  const present = existsSync(target) ? readdirSync(target).filter((name) => /^rocketmq_.*\.py$/.test(name)) : [];
  const stale = [...files].filter(
    ([path, text]) => !existsSync(join(target, path)) || readFileSync(join(target, path), "utf8") !== text,
  );
  const left = present.filter((name) => !files.has(name));
  for (const [path] of stale) console.error(`stale: ${path}`);
  for (const path of left) console.error(`no such spec: ${path}`);
  process.exit(stale.length + left.length > 0 ? 1 : 0);
}
mkdirSync(target, { recursive: true });
for (const name of readdirSync(target)) if (/^rocketmq_.*\.py$/.test(name)) rmSync(join(target, name));
for (const [path, text] of files) writeFileSync(join(target, path), text);
if (!existsSync(join(target, "__init__.py"))) {
  writeFileSync(join(target, "__init__.py"), '"""Readers compiled from specs/ksy by build.mjs. Not edited by hand."""\n');
}
console.log(`${files.size - 1} readers in ${target}`);
