"""The console: HTML pages on which operators run a service and viewers look at a study, without a terminal.

How a screen is made
    - One module: `routes(console) -> list[Route]`, its handlers, and a function that makes a *view*: frozen dataclasses
      of plain data, no HTML, comparable with ==. `routes.py` lists the screens.
    - One template `templates/NAME.html.j2` that extends `base.html.j2` and fills the blocks `title`, `main`, and, if it
      needs them, `head` (more style sheets) and `scripts` (more scripts, by `asset("charts.js")`).
    - Parts that change are templates of their own in `templates/parts/NAME.html.j2`. The outermost element of a part
      has the part's name as its id, so that htmx and server-sent events can replace it. The page includes its parts.
    - Templates get what the handler passes, and always: `principal` (None: not signed in), `csrf`, `here` (the path),
      `asset(name)`, and the filters of `pages.py`. Everything is escaped; there is no `|safe`.

Routes (`web/routes.py`): `page(...)` and `form(...)` of `screen.py` declare them; they are not in the OpenAPI document.
    - role "session": signed in (or anyone, of an open service); call `await console.study(request)` where the path has
      a study: it refuses one that they may not see, such as a draft. `session_of(request)` returns the `Session`.
    - role "manager": signed in as an operator. Every POST with one of these roles has passed the check of its CSRF
      token: each form contains `{% include "parts/csrf.html.j2" %}`, and htmx sends it as a header (base template).
    - role "live": for server-sent events; does not count as use of the session.

Answers
    - `console.show(request, "NAME", **values)` shows a page.
    - `console.moved(request, "/address")` after a form: a redirect, which htmx understands, too. Forms are plain
      `<form method="post">`; they work without scripts. `hx-confirm` or `<details>` guards what cannot be undone.
    - A `Refusal` or `InputError` becomes an error page, or, for a request of htmx, a message at the top of the page.

Live: `console.live(request, Feed(key, view, signs), "name of the view", ["PART", ...])` keeps parts of a page
    up to date; outside of all parts the page has
    `<div hx-sse:connect="/address/live" hx-sse:close="ended" hx-swap="none"></div>`.
    The view is made once for all browsers that watch the same key. `signs()`, if given, is a cheap look at the database
    that differs when the view may; without it the view is made at every look. See `live.py`.

Content policy: no inline script or style, no style attributes, no hx-on, no js: values. Numbers for charts go into
    `data-...` attributes (`{{ numbers|tojson|forceescape }}`) or into `<script type="application/json">`; scripts must
    not use innerHTML (Trusted Types).
"""
