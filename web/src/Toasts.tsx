import { dismiss, toasts } from "./state";
import { words } from "./words";

/** Shows errors for a while. */
export function Toasts() {
  return (
    <div class="toasts" role="alert">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.kind}`}>
          <span dir="auto">{toast.text}</span>
          <button type="button" class="icon" aria-label={words.value.close} onClick={() => dismiss(toast.id)}>×</button>
        </div>
      ))}
    </div>
  );
}
