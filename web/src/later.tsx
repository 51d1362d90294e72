// Parts of the page that are loaded when they are first shown.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { complain } from "./state";
import { words } from "./words";

/** A component that loads on first use; with `quiet`, nothing is shown meanwhile. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>, quiet = false): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Later(props: P) {
    const [, setReady] = useState(loaded !== undefined);
    useEffect(() => {
      if (loaded !== undefined) return;
      load().then((component) => {
        loaded = component;
        setReady(true);
      }, complain);
    }, []);
    const Loaded = loaded;
    if (Loaded !== undefined) return <Loaded {...props} />;
    return quiet ? null : <p class="quiet later">{words.value.loading}</p>;
  };
}
