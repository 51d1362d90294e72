"""The page at `/`: files that were built from `web/` (`make web`)."""

from importlib import resources

from citewire_http.api.built_page import page_router

# The only policy accepts one URL, that of the worker script that reads PDFs.
router = page_router(resources.files("citewire_gateway") / "page", "citewire-worker")
