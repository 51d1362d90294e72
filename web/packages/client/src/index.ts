export { ApiError, CitewireClient, type ClientOptions, errorOf } from "./client";
export { badgeText, findMarkers, holdBack, MarkerParser, type Segment, splitMarkers } from "./markers";
export { readFrames } from "./sse";
export type * from "./types";
