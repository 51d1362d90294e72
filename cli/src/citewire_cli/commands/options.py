"""Options that several commands share."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts; errors as JSON on stderr.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="The gateway's URL; default: CITEWIRE_URL.", show_default=False)
]
ImagesOption = Annotated[
    bool, typer.Option("--images", help="Include a folder's images, whose text Tesseract recognises.")
]
CollectionOption = Annotated[
    str | None, typer.Option("--collection", "-c", help="Only this collection.", show_default=False)
]
DocumentOption = Annotated[
    list[int] | None,
    typer.Option("--document", "-d", help="Only this document (its id); may be repeated.", show_default=False),
]
