// The field for questions, with the chosen scope beside it.
import { useLayoutEffect, useRef } from "preact/hooks";

import { nameText } from "../links";
import { attempt } from "../state";
import { words } from "../words";
import {
  ask, chooseModel, chooseProfile, chosenCollection, chosenDocuments, chosenProfile, chosenTags, collections, draft, isBusy, models, profiles, stop,
} from "./chat";

export function Composer() {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const area = field.current;
    if (area === null || CSS.supports("field-sizing", "content")) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [draft.value]);
  const send = () => {
    const question = draft.value;
    if (isBusy.value || question.trim() === "") return;
    draft.value = "";
    void ask(question);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter at the end of a composition (in Japanese, for example) chooses a word; some browsers report it as 229.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      {chosenDocuments.value.length + chosenTags.value.length > 0 && (
        <ul class="chosen">
          {chosenTags.value.map((tag) => (
            <li key={`tag ${tag}`} dir="auto">
              {words.value.onlyTag(nameText(tag))}
              <button
                type="button"
                class="icon"
                aria-label={words.value.removeTag(tag)}
                onClick={() => (chosenTags.value = chosenTags.value.filter((other) => other !== tag))}
              >×</button>
            </li>
          ))}
          {chosenDocuments.value.map((chosen) => (
            <li key={chosen.id} dir="auto">
              {words.value.onlyDocument(chosen.title)}
              <button
                type="button"
                class="icon"
                aria-label={words.value.removeDocument(chosen.title)}
                onClick={() => (chosenDocuments.value = chosenDocuments.value.filter((other) => other.id !== chosen.id))}
              >×</button>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={field}
        id="question"
        rows={1}
        dir="auto"
        aria-label={words.value.question}
        placeholder={words.value.placeholder}
        value={draft.value}
        onInput={(event) => (draft.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="composer-row">
        <label>
          <span class="hidden">{words.value.profile}</span>
          <select value={chosenProfile.value} onChange={(event) => chooseProfile(event.currentTarget.value)}>
            {profiles.value.map((profile) => (
              <option key={profile.name} value={profile.name} title={profile.description}>{words.value.profiles[profile.name] ?? profile.name}</option>
            ))}
          </select>
        </label>
        {collections.value.length > 0 && (
          <label>
            <span class="hidden">{words.value.collection}</span>
            <select value={chosenCollection.value} onChange={(event) => (chosenCollection.value = event.currentTarget.value)}>
              <option value="">{words.value.allCollections}</option>
              {collections.value.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        )}
        {models.value.length > 1 && (
          <label>
            <span class="hidden">{words.value.model}</span>
            <select value={models.value.find((model) => model.active)?.name ?? ""} onChange={(event) => void attempt(() => chooseModel(event.currentTarget.value))}>
              {!models.value.some((model) => model.active) && <option value="" disabled>{words.value.model}</option>}
              {models.value.map((model) => <option key={model.name} value={model.name}>{model.name}</option>)}
            </select>
          </label>
        )}
        <span class="fill" />
        {isBusy.value ? (
          <button type="button" class="primary" onClick={stop}>{words.value.stop}</button>
        ) : (
          <button type="submit" class="primary" disabled={draft.value.trim() === ""}>{words.value.send}</button>
        )}
      </div>
    </form>
  );
}
