// A dialog for the readers of a conversation, a document or a collection.
import type { Document } from "@citewire/client";
import { useEffect, useRef, useState } from "preact/hooks";

import { dialog, type OpenDialog } from "../dialog-state";
import { nameText } from "../links";
import { attempt, caller, client, toast } from "../state";
import { words } from "../words";
import { type Entry, fromSharing, type Kind, kindOf, nameOf, type Sharing, subjectOf, toSharing } from "./subjects";

const ADMINS = ["owner", "admin"];

/** The subject of a dialog: the source and target of its entries. */
interface About {
  heading: string;
  text: string;
  none: string;
  read: () => Promise<Entry[]>;
  write: (entries: Entry[]) => Promise<Entry[]>;
  /** Whether entries have rights besides reading. */
  accesses: boolean;
  /** Whether everyone can be an entry: readers restrict the access that a collection gives, and everyone would restrict nothing. */
  everyone: boolean;
  link: string | null;
}

export function Dialogs({ open }: { open: OpenDialog }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current!.showModal();
    return () => opener instanceof HTMLElement && opener.focus();
  }, []);
  return (
    <dialog ref={element} aria-labelledby="dialog-heading" onClose={() => (dialog.value = null)} onClick={(event) => event.target === element.current && element.current?.close()}>
      <Permissions about={aboutOf(open)} onClose={() => element.current!.close()} />
    </dialog>
  );
}

function aboutOf(open: OpenDialog): About {
  switch (open.kind) {
    case "sharing": {
      const path = `/v1/conversations/${open.conversation}/sharing`;
      return {
        heading: words.value.shareTitle(nameText(open.title)), text: words.value.shareText, none: words.value.notShared,
        read: async () => fromSharing(await client.call<Sharing>("GET", path)),
        write: async (entries) => fromSharing(await client.call<Sharing>("PUT", path, toSharing(entries))),
        accesses: false, everyone: true, link: `${location.origin}${location.pathname}#/c/${open.conversation}`,
      };
    }
    case "grants": {
      const path = `/v1/collections/${encodeURIComponent(open.collection)}/grants`;
      return {
        heading: words.value.grantsTitle(nameText(open.collection)), text: words.value.grantsText, none: words.value.everybodys,
        read: async () => (await client.call<{ grants: Entry[] }>("GET", path)).grants,
        write: async (grants) => (await client.call<{ grants: Entry[] }>("PUT", path, { grants })).grants,
        accesses: true, everyone: true, link: null,
      };
    }
    case "readers": {
      const { document } = open;
      return {
        heading: words.value.readersTitle(nameText(document.title || document.file_name)), text: words.value.readersText,
        none: words.value.readersOfCollection,
        read: () => Promise.resolve(toEntries(document.readers)),
        write: async (entries) => {
          const readers = entries.length === 0 ? null : entries.map(({ subject }) => subject);
          const saved = await client.call<Document>("PATCH", `/v1/documents/${document.id}`, { readers });
          open.onSaved(saved);
          return toEntries(saved.readers);
        },
        accesses: false, everyone: false, link: null,
      };
    }
  }
}

function toEntries(readers: string[] | undefined): Entry[] {
  return (readers ?? []).map((subject) => ({ subject, access: "read" }));
}

function Permissions({ about, onClose }: { about: About; onClose: () => void }) {
  const [entries, setEntries] = useState<Entry[] | null>(null);
  useEffect(() => void attempt(async () => setEntries(await about.read())), []);
  const save = (changed: Entry[]) => attempt(async () => setEntries(await about.write(changed)));
  const copy = async () => {
    await navigator.clipboard.writeText(about.link!);
    toast(words.value.linkCopied, "note");
  };
  return (
    <>
      <header class="row">
        <h2 id="dialog-heading" class="fill">{about.heading}</h2>
        <button type="button" class="icon" aria-label={words.value.close} onClick={onClose}>×</button>
      </header>
      <p class="quiet">{about.text}</p>
      {entries === null ? <p class="quiet">{words.value.loading}</p> : (
        <>
          <ul class="rows subjects">
            {entries.map((entry) => (
              <li key={entry.subject}>
                <span class="name" dir="auto">{textOf(entry.subject)}</span>
                {about.accesses && (
                  <select
                    aria-label={words.value.accessOf(textOf(entry.subject))}
                    value={entry.access}
                    onChange={(event) => {
                      const access = event.currentTarget.value as Entry["access"];
                      void save(entries.map((other) => (other === entry ? { ...other, access } : other)));
                    }}
                  >
                    {(Object.keys(words.value.accesses) as Entry["access"][]).map((access) => <option key={access} value={access}>{words.value.accesses[access]}</option>)}
                  </select>
                )}
                <button type="button" class="link" aria-label={words.value.removeSubject(textOf(entry.subject))} onClick={() => void save(entries.filter((other) => other !== entry))}>{words.value.remove}</button>
              </li>
            ))}
            {entries.length === 0 && <li class="quiet">{about.none}</li>}
          </ul>
          <AddSubject taken={entries} everyone={about.everyone} onAdd={(subject) => save([...entries, { subject, access: "read" }])} />
        </>
      )}
      <footer class="row">
        {about.link !== null && <button type="button" onClick={() => void copy()}>{words.value.copyLink}</button>}
        <span class="fill" />
        <button type="button" class="primary" onClick={onClose}>{words.value.done}</button>
      </footer>
    </>
  );
}

function textOf(subject: string): string {
  const kind = kindOf(subject);
  return kind === "everyone" ? words.value.everyone : words.value.kinds[kind](nameText(nameOf(subject)));
}

function AddSubject({ taken, everyone, onAdd }: { taken: Entry[]; everyone: boolean; onAdd: (subject: string) => Promise<boolean> }) {
  const [kind, setKind] = useState<Kind>("user");
  const [name, setName] = useState("");
  const [known, setKnown] = useState<string[]>([]);
  const isAdmin = caller.value?.roles.some((role) => ADMINS.includes(role)) === true;
  useEffect(() => {
    if (isAdmin && kind !== "everyone") void attempt(async () => setKnown(await namesOf(kind)));
  }, [kind]);
  const subject = subjectOf(kind, name);
  const isTaken = taken.some((entry) => entry.subject === subject);
  const add = async () => {
    if (await onAdd(subject)) setName("");
  };
  return (
    <form class="tools" onSubmit={(event) => { event.preventDefault(); void add(); }}>
      <select aria-label={words.value.kindOfReader} value={kind} onChange={(event) => { setKind(event.currentTarget.value as Kind); setKnown([]); }}>
        <option value="user">{words.value.user}</option>
        <option value="group">{words.value.group}</option>
        {everyone && <option value="everyone">{words.value.everyone}</option>}
      </select>
      {kind !== "everyone" && (
        <>
          <input aria-label={words.value.nameOfReader} placeholder={words.value.nameOfReader} required maxLength={200} list="known-names" value={name} autoComplete="off" onInput={(event) => setName(event.currentTarget.value)} />
          <datalist id="known-names">{known.map((each) => <option key={each} value={each} />)}</datalist>
        </>
      )}
      <button type="submit" disabled={isTaken}>{words.value.add}</button>
    </form>
  );
}

/** The organisation's users or groups, for callers who may list them. */
async function namesOf(kind: "user" | "group"): Promise<string[]> {
  if (kind === "user") {
    const { users } = await client.call<{ users: { user: string }[] }>("GET", "/v1/admin/users?page_size=500");
    return users.map(({ user }) => user);
  }
  const { groups } = await client.call<{ groups: { name: string }[] }>("GET", "/v1/admin/groups?page_size=500");
  return groups.map(({ name }) => name);
}
