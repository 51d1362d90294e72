// pdf.js with its worker, which is a script of this origin: nothing else can become one.
import { getDocument, type PDFDocumentLoadingTask, PDFWorker } from "pdfjs-dist";
import workerUrl from "pdfjs-dist/build/pdf.worker.min.mjs?url";

/** The folder of pdf.js's own files, as the build names it. */
declare const PDF_FILES: string;

interface ScriptPolicy {
  createScriptURL(url: string): string;
}
interface PolicyMaker {
  createPolicy(name: string, rules: ScriptPolicy): ScriptPolicy;
}

// Browsers without Trusted Types take the address as it is. Each policy's name is free once.
const policy = (globalThis as { trustedTypes?: PolicyMaker }).trustedTypes?.createPolicy("citewire-worker", {
  createScriptURL(url) {
    if (url !== workerUrl) throw new TypeError("only the script that reads PDFs becomes a worker");
    return url;
  },
});

/** Opens a PDF. Ending the task, by what is returned, frees all that it holds. */
export function openPdf(data: ArrayBuffer): { task: PDFDocumentLoadingTask; end: () => void } {
  const port = new Worker(policy?.createScriptURL(workerUrl) ?? workerUrl, { type: "module" });
  const worker = new PDFWorker({ port: port as unknown as null }); // its types know no worker
  // Asked for where a file needs them: tables for East Asian text, standard fonts, and decoders of pictures as plain
  // scripts, since `wasm-unsafe-eval` is nothing that the page's policy allows.
  const files = new URL(PDF_FILES, document.baseURI).href;
  const task = getDocument({
    data, worker, cMapUrl: files, standardFontDataUrl: files, wasmUrl: files, useWasm: false, enableXfa: false,
  });
  const end = () => void task.destroy().finally(() => port.terminate());
  return { task, end };
}
