"""The web page: plan, compare, watch a simulated session, see what runs.

All computing is in plain functions on frozen values, without a browser: `form` (what the fields say),
`planning` and `series_planning` (the answers), `same` (the command and Python lines that do the same),
`compare` (two answers), `watched_run` (a simulated session, and what an adversary believes), `deployment`
(hubs and members that run), `charts` (what to draw). Thin pages of NiceGUI show it (`shell`, `fields`,
`panel`, `page_…`), `address` keeps the question in the address bar, and `server` runs them on this machine.
"""
