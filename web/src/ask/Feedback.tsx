// Feedback on an answer: reasons to choose from, and a comment.
import type { FeedbackInfo } from "@citewire/client";
import { useState } from "preact/hooks";

import { attempt, client } from "../state";
import { useFocus } from "../use-focus";
import { words } from "../words";
import type { StoredPlace } from "./answer";

export type Rating = FeedbackInfo["rating"];

const REASONS: Record<Rating, string[]> = {
  up: ["correct", "complete", "well_cited", "clear"],
  down: ["incorrect", "unsupported", "incomplete", "off_topic", "outdated", "unclear"],
};

export interface FeedbackProps {
  place: StoredPlace;
  rating: Rating;
  /** The feedback stored earlier; null: none. */
  before: FeedbackInfo | null;
  onKept: (feedback: FeedbackInfo | null) => void;
  onClose: () => void;
}

export function Feedback({ place, rating, before, onKept, onClose }: FeedbackProps) {
  const known = before?.rating === rating ? before : null;
  const [reasons, setReasons] = useState<string[]>(known?.reasons ?? []);
  const [comment, setComment] = useState(known?.comment ?? "");
  const first = useFocus<HTMLInputElement>(true);
  const path = `/v1/conversations/${place.conversation}/answers/${place.exchange}/feedback`;
  const keep = () => attempt(async () => onKept(await client.call<FeedbackInfo>("PUT", path, { rating, reasons, comment })));
  const takeBack = () => attempt(async () => {
    await client.call("DELETE", path);
    onKept(null);
  });
  const toggle = (reason: string, isOn: boolean) => setReasons(isOn ? [...reasons, reason] : reasons.filter((other) => other !== reason));
  return (
    <form
      class="feedback"
      aria-label={words.value.rateAs[rating]}
      onSubmit={(event) => { event.preventDefault(); void keep(); }}
      onKeyDown={(event) => { if (event.key === "Escape") { event.preventDefault(); onClose(); } }}
    >
      <fieldset>
        <legend>{words.value.whyRated[rating]}</legend>
        {REASONS[rating].map((reason, at) => (
          <label key={reason} class="choice">
            <input ref={at === 0 ? first : null} type="checkbox" checked={reasons.includes(reason)} onChange={(event) => toggle(reason, event.currentTarget.checked)} />
            {words.value.reasons[reason] ?? reason}
          </label>
        ))}
      </fieldset>
      <textarea rows={2} dir="auto" maxLength={2000} aria-label={words.value.comment} placeholder={words.value.comment} value={comment} onInput={(event) => setComment(event.currentTarget.value)} />
      <p class="quiet">{words.value.feedbackNote}</p>
      <div class="row">
        <button type="submit" class="primary">{words.value.sendFeedback}</button>
        <button type="button" onClick={onClose}>{words.value.cancel}</button>
        {before !== null && <button type="button" class="link" onClick={() => void takeBack()}>{words.value.takeBack}</button>}
      </div>
    </form>
  );
}
