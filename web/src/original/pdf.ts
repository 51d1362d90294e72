// pdf.js with its worker, a script from this origin: no other script can become a worker.
import { getDocument, type PDFDocumentLoadingTask, PDFWorker } from "pdfjs-dist";
import workerUrl from "pdfjs-dist/build/pdf.worker.min.mjs?url";

/** The folder of pdf.js's own files, as named by the build. */
declare const PDF_FILES: string;

interface ScriptPolicy {
  createScriptURL(url: string): string;
}
interface PolicyMaker {
  createPolicy(name: string, rules: ScriptPolicy): ScriptPolicy;
}

// Browsers without Trusted Types take the URL as it is. Each policy name can be used only once.
const policy = (globalThis as { trustedTypes?: PolicyMaker }).trustedTypes?.createPolicy("citewire-worker", {
  createScriptURL(url) {
    if (url !== workerUrl) throw new TypeError("only the script that reads PDFs becomes a worker");
    return url;
  },
});

/** Opens a PDF. Destroying the returned task frees everything that it holds. */
export function openPdf(data: ArrayBuffer): { task: PDFDocumentLoadingTask; end: () => void } {
  const port = new Worker(policy?.createScriptURL(workerUrl) ?? workerUrl, { type: "module" });
  const worker = new PDFWorker({ port: port as unknown as null }); // its types lack the worker
  // Requested if a file needs them: tables for East Asian text, standard fonts, and image decoders as plain scripts,
  // since the page's policy doesn't allow `wasm-unsafe-eval`.
  const files = new URL(PDF_FILES, document.baseURI).href;
  const task = getDocument({
    data, worker, cMapUrl: files, standardFontDataUrl: files, wasmUrl: files, useWasm: false, enableXfa: false,
  });
  const end = () => void task.destroy().finally(() => port.terminate());
  return { task, end };
}
