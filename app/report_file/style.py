"""The style sheet of a report's file. Nothing else: it is the one thing that is put into the file as it is."""

_LIGHT = "--bg:#fff;--card:#f7f8fa;--fg:#1b1f24;--mut:#57606a;--rule:#d8dde3;--a:#0b62c4;--b:#a4570a;--c:#b3124b"
_DARK = "--bg:#101418;--card:#181d23;--fg:#e6eaee;--mut:#9aa6b2;--rule:#313a44;--a:#6cb2ff;--b:#f0a95b;--c:#ff86ab"
_PAPER = "--bg:#fff;--card:#fff;--fg:#000;--mut:#444;--rule:#bbb;--a:#0b62c4;--b:#a4570a;--c:#b3124b"

STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
@media print{{:root{{color-scheme:light;{_PAPER}}}main{{max-width:none;padding:0}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}}
main{{max-width:940px;margin:0 auto;padding:24px 16px}}
h1{{font-size:24px;margin:0 0 4px}}
h2{{font-size:17px;margin:0 0 10px}}
small,.mut{{color:var(--mut);font-weight:400}}
.tag{{display:inline-block;border:1px solid var(--rule);border-radius:10px;padding:0 8px}}
.tag{{font-size:13px;font-weight:400;vertical-align:3px}}
.headline{{font-size:17px}}
section{{background:var(--card);border:1px solid var(--rule);border-radius:8px}}
section{{padding:14px 16px;margin:16px 0;break-inside:avoid}}
h1,p,td,th,dd{{overflow-wrap:anywhere}}
table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
th,td{{padding:3px 10px 3px 0;text-align:right;border-top:1px solid var(--rule);vertical-align:top}}
thead th{{border-top:0;color:var(--mut);font-weight:400}}
th:first-child{{text-align:left;font-weight:400}}
.scroll{{overflow-x:auto}}
dl{{display:grid;grid-template-columns:auto 1fr;gap:3px 18px;margin:0}}
dt{{color:var(--mut)}}
dd{{margin:0}}
figure{{margin:0 0 12px}}
figcaption{{font-weight:600}}
svg{{width:100%;height:auto;display:block}}
svg text{{fill:var(--mut);font:12px system-ui,sans-serif}}
.sample{{display:inline-block;width:26px;height:12px;vertical-align:middle}}
.legend{{margin:4px 0 0}}
.legend>span{{margin-right:18px;white-space:nowrap}}
.grid{{stroke:var(--rule);stroke-width:1}}
.line,.dot{{fill:none;stroke-width:1.8}}
.bar{{fill:var(--a)}}
.a{{stroke:var(--a)}}
.b{{stroke:var(--b);stroke-dasharray:6 3}}
.c{{stroke:var(--c);stroke-dasharray:2 3}}
footer{{color:var(--mut);margin:24px 0}}
"""
