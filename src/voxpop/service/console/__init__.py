"""The console: HTML pages on which operators run a service and viewers look at a study, without a terminal.

How a screen is made
    - One module: functions that make a *view*, frozen dataclasses of plain data without HTML that are comparable with
      ==, and a class whose methods are the handlers. `@page(address, role)` or `@form(address, role, most_bytes)` above
      a method declares its route; `routes.py` lists the screens. No page is in the OpenAPI document.
    - One template `templates/NAME.html.j2` that extends `base.html.j2` and fills the blocks `title`, `main`, and, if it
      needs them, `head` (more style sheets) and `scripts` (more scripts, by `asset("charts.js")`).
    - Parts that change are templates of their own in `templates/parts/NAME.html.j2`. The outermost element of a part
      has the part's name as its id, so that htmx and server-sent events can replace it. The page includes its parts.
    - Templates get what the handler passes, and always: `principal` (None: not signed in), `csrf`, `here` (the path),
      `asset(name)`, and the filters of `pages.py`. Everything is escaped; there is no `|safe`.

Roles (`sign_in.py`)
    - "session": signed in (or anyone, of an open service); call `await console.study(request)` where the path has a
      study: it refuses one that they may not see, such as a draft. `session_of(request)` returns the `Session`.
    - "manager": signed in as an operator. Every POST with one of these roles has passed the check of its CSRF token:
      each form contains `{% include "parts/csrf.html.j2" %}`, and htmx sends it as a header (base template).
    - "live": for server-sent events; does not count as use of the session.

Replies (`screen.py`)
    - `console.show(request, "NAME", **values)` shows a page.
    - `console.moved(request, "/address")` after a form: a redirect, which htmx understands, too. Forms are plain
      `<form method="post">`; they work without scripts. `<details>` guards what cannot be undone.
    - `console.live(request, Feed(key, view), "name of the view")` keeps the part of that name, or others, up to date:
      the page has `<div hx-sse:connect="/address/live" hx-sse:close="ended" hx-swap="none"></div>` outside of all
      parts. The view is made once for all browsers that watch the same key (`live.py`).
    - A `Refusal` or `InputError` becomes an error page, or, for a request of htmx, a message at the top of the page.

Content policy: no inline script or style, no style attributes, no hx-on, no js: values. Numbers for charts go into
    `data-...` attributes (`{{ numbers|tojson|forceescape }}`); scripts must not use innerHTML (Trusted Types).
"""
