// Answers for screen readers: what a browser leaves out of sight it leaves out of the accessibility tree, too. So that is how long
// answers are only while one is written or the window changes; afterwards they are laid out in full, a little in each frame.

/** What has `content-visibility: auto`. */
const LEFT_OUT = ":is(.blocks, .prose li, .prose .lines, .long > tbody)";
const QUIET_MS = 250;
/** Of a frame: milliseconds after which no more is begun, and characters that are laid out at once. */
const MOST_MS = 6;
const MOST_CHARACTERS = 2000;

/** Lays out all answers in a list, and anew after a change of the window; returns what ends it, so that they are left out again. */
export function layOutInFull(list: HTMLElement): () => void {
  let timer = setTimeout(go, QUIET_MS);
  let frame = 0;
  function go(): void {
    const until = performance.now() + MOST_MS;
    let characters = 0;
    for (const element of list.querySelectorAll<HTMLElement>(`${LEFT_OUT}:not(.in-full)`)) {
      element.classList.add("in-full");
      characters += element.querySelector(LEFT_OUT) === null ? element.textContent.length : 0; // what is in it has its own turn
      if (characters < MOST_CHARACTERS) continue;
      void list.offsetHeight; // now, so that it is known how long it takes
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
