"""The web page: plan, compare, watch a simulated session, follow a running one.

Everything that thinks is plain functions on frozen values, without a browser: `form` (what the fields
say), `plan` (what they lead to), `same` (the lines that do the same), `session` (a simulated session, and
what an adversary makes of it), `deployment` (a running one), `charts` (what to draw). Thin pages of
NiceGUI show it (`shell`, `panel`, `page_…`), and `serve` runs them on this machine alone.
"""
