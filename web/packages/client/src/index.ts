export { ApiError, CitewireClient, type ClientOptions, type ErrorDetails, errorOf, type WrongField } from "./client.ts";
export { badgeText, findMarkers, holdBack, MarkerParser, type Segment, splitMarkers } from "./markers.ts";
export { readFrames } from "./sse.ts";
export type * from "./types.ts";
export { Citewire, type CitewireOptions, type Stored, type UploadOptions } from "./citewire.ts";
