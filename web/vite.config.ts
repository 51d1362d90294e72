import { readdirSync, readFileSync } from "node:fs";

import { defineConfig, type Plugin } from "vite";

interface Lock {
  packages: Record<string, { dev?: boolean; link?: boolean; optional?: boolean; version: string }>;
}

const PDFJS = "node_modules/pdfjs-dist";
const PDFJS_VERSION = (JSON.parse(readFileSync(`${PDFJS}/package.json`, "utf8")) as { version: string }).version;
/** Files that some PDFs need, by folder: character tables, standard fonts, image decoders in plain JavaScript. Fonts under the GPL are left out. */
const PDF_FILES: Record<string, RegExp> = { cmaps: /\.bcmap$/, standard_fonts: /^Foxit.*\.pfb$/, wasm: /^(?:jbig2|openjpeg)_nowasm_fallback\.js$/ };
const PDF_LICENCES = ["cmaps/LICENSE", "standard_fonts/LICENSE_FOXIT", ...["JBIG2", "OPENJPEG", "PDFJS_JBIG2", "PDFJS_OPENJPEG"].map((name) => `wasm/LICENSE_${name}`)];

/** The licences of the bundled packages, from the packages themselves. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
      const bundled = Object.entries(lock.packages).filter(
        ([path, entry]) => path.startsWith("node_modules/") && !entry.dev && !entry.link && !entry.optional,
      );
      const texts = bundled.map(([path, { version }]) => {
        const text = ["LICENSE", "LICENSE.md"].flatMap((name) => {
          try {
            return [readFileSync(`${path}/${name}`, "utf8").trim()];
          } catch {
            return [];
          }
        })[0];
        if (text === undefined) throw new Error(`${path} holds no licence`);
        return `${path.slice("node_modules/".length)} ${version}\n\n${text}\n`;
      });
      texts.push(...PDF_LICENCES.map((path) => `pdfjs-dist/${path}\n\n${readFileSync(`${PDFJS}/${path}`, "utf8").trim()}\n`));
      this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join("\n----\n\n") });
    },
  };
}

/** Files that pdf.js requests by name, in a folder with its version; their licences are beside the others. */
function pdfFiles(): Plugin {
  return {
    name: "pdf-files",
    config: () => ({ define: { PDF_FILES: JSON.stringify(`assets/pdf-${PDFJS_VERSION}/`) } }),
    generateBundle() {
      for (const [folder, wanted] of Object.entries(PDF_FILES)) {
        for (const name of readdirSync(`${PDFJS}/${folder}`).filter((name) => wanted.test(name)).sort()) {
          this.emitFile({ type: "asset", fileName: `assets/pdf-${PDFJS_VERSION}/${name}`, source: readFileSync(`${PDFJS}/${folder}/${name}`) });
        }
      }
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [licences(), pdfFiles()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../gateway/src/citewire_gateway/page",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome120", "firefox121", "safari16.4"], // they support `:dir()`, which would become a list of languages
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
});
