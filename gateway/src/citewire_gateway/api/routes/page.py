"""The page at `/`: files that were built from `web/` (`make web`)."""

from importlib import resources

from citewire_http.api.built_page import page_router

# The one policy takes one address, of the script that reads PDFs beside the page.
router = page_router(resources.files("citewire_gateway") / "page", "citewire-worker")
