// Answers for screen readers: a browser omits skipped content from the accessibility tree too. So long answers are skipped
// only while an answer is written or the window changes; afterwards they are laid out in full, a little in each frame.

/** Elements with `content-visibility: auto`. */
const LEFT_OUT = ":is(.blocks, .prose li, .prose .lines, .long > tbody)";
const QUIET_MS = 250;
/** Per frame: milliseconds after which no more work is started, and characters laid out at once. */
const MOST_MS = 6;
const MOST_CHARACTERS = 2000;

/** Lays out all answers in a list, again after each change of the window; returns a function that stops this and skips them again. */
export function layOutInFull(list: HTMLElement): () => void {
  let timer = setTimeout(go, QUIET_MS);
  let frame = 0;
  function go(): void {
    const until = performance.now() + MOST_MS;
    let characters = 0;
    for (const element of list.querySelectorAll<HTMLElement>(`${LEFT_OUT}:not(.in-full)`)) {
      element.classList.add("in-full");
      characters += element.querySelector(LEFT_OUT) === null ? element.textContent.length : 0; // its content has its own turn
      if (characters < MOST_CHARACTERS) continue;
      void list.offsetHeight; // forced now, to measure how long it takes
      characters = 0;
      if (performance.now() < until) continue;
      frame = requestAnimationFrame(go);
      return;
    }
  }
  function leaveOut(): void {
    clearTimeout(timer);
    cancelAnimationFrame(frame);
    for (const element of list.querySelectorAll(".in-full")) element.classList.remove("in-full");
  }
  function onResize(): void {
    leaveOut();
    timer = setTimeout(go, QUIET_MS);
  }
  addEventListener("resize", onResize);
  return () => {
    removeEventListener("resize", onResize);
    leaveOut();
  };
}
