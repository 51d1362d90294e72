// Completes dist/ after the compiler: adds the API's types, which it doesn't copy, and a package.json for the build.
import { copyFile, readFile, writeFile } from "node:fs/promises";

const { name, version, type, license, description, dependencies } = JSON.parse(await readFile("package.json", "utf8"));
const exports = { ".": { types: "./index.d.ts", default: "./index.js" } };
const built = { name, version, type, license, description, exports, dependencies };
await writeFile("dist/package.json", JSON.stringify(built, null, 2) + "\n");
await copyFile("src/schema.d.ts", "dist/schema.d.ts");
await copyFile("README.md", "dist/README.md");
