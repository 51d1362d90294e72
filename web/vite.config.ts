import { readFileSync } from "node:fs";

import { defineConfig, type Plugin } from "vite";

interface Lock {
  packages: Record<string, { dev?: boolean; link?: boolean; optional?: boolean; version: string }>;
}

/** The licences of what is in the bundle, as their packages hold them. */
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
      this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join("\n----\n\n") });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [licences()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../gateway/src/citewire_gateway/page",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome120", "firefox121", "safari16.4"], // they know `:dir()`, which would become a list of languages
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
});
