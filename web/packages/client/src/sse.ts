// Reads the frames of a server-sent event stream from the body of a fetch, because an EventSource can't POST.
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** Yields a body's frames as they arrive, however the network splits them; cancels the body if reading stops early. */
export async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<EventSourceMessage> {
  const frames: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (frame) => frames.push(frame) });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* frames.splice(0);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have failed already, which the read has reported
  }
}
