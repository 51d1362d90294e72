"""The API document as one HTML page: no script, nothing loaded from elsewhere, so that it works offline."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

Docs = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
summary { cursor: pointer; padding: .4rem 0; }
details { border-top: 1px solid #8884; }
pre { background: #8881; padding: .75rem; overflow-x: auto; border-radius: .4rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
"""


def render(schema: Docs) -> str:
    """Returns the page for an OpenAPI document."""
    info: Docs = schema["info"]
    sections = "".join(_section(tag, schema) for tag in schema.get("tags", []))
    shapes = "".join(
        f"<details id='schema-{escape(name)}'><summary><code>{escape(name)}</code></summary>{_pre(shape)}</details>"
        for name, shape in sorted(schema["components"]["schemas"].items())
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        "<p>The same as data: <a href='/openapi.json'>openapi.json</a></p>"
        f"{sections}<h2>Schemas</h2>{shapes}</body></html>"
    )


def _section(tag: Docs, schema: Docs) -> str:
    operations = "".join(
        _operation(path, method, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
        if tag["name"] in operation.get("tags", [])
    )
    return f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>{operations}"


def _operation(path: str, method: str, operation: Docs) -> str:
    parts = [f"<p>{escape(operation.get('description', ''))}</p>"]
    parameters: list[Docs] = operation.get("parameters", [])
    if parameters:
        rows = "".join(
            f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
            f"<td>{escape(one.get('description', ''))}</td></tr>"
            for one in parameters
        )
        parts.append(f"<h4>Parameters</h4><table>{rows}</table>")
    if "requestBody" in operation:
        parts.append(f"<h4>Body</h4>{_contents(operation['requestBody']['content'].items())}")
    for status, response in operation["responses"].items():
        parts.append(f"<h4>{escape(status)} – {escape(response.get('description', ''))}</h4>")
        parts.append(_contents(response.get("content", {}).items()))
    return (
        f"<details><summary><span class='method'>{escape(method.upper())}</span> <code>{escape(path)}</code> – "
        f"{escape(operation.get('summary', ''))}</summary>{''.join(parts)}</details>"
    )


def _contents(contents: Iterable[tuple[str, Docs]]) -> str:
    return "".join(_content(media_type, content) for media_type, content in contents)


def _content(media_type: str, content: Docs) -> str:
    shape: Docs = content.get("schema", {})
    event: Docs = shape.get("x-event-schema", {})
    reference = str(shape.get("$ref") or event.get("$ref") or "").rpartition("/")[2]
    link = f" – <a href='#schema-{escape(reference)}'>{escape(reference)}</a>" if reference else ""
    text = f"<p>{escape(shape['description'])}</p>" if "description" in shape else ""
    example = content.get("example")
    return f"<p><code>{escape(media_type)}</code>{link}</p>{text}{'' if example is None else _pre(example)}"


def _pre(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return f"<pre>{escape(text)}</pre>"
