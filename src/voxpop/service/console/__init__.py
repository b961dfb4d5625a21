"""The console: HTML pages on which operators run a service and viewers look at a study, without a terminal.

A screen is a module with functions that make a *view* (frozen dataclasses of plain data without HTML, comparable with
==), a class of handlers (`screen.py` has the ways to declare them), and a template `templates/NAME.html.j2`. Parts that
change are templates of their own in `templates/parts`: the outermost element of a part has the part's name as its id,
by which htmx and server-sent events replace it. Templates get what the handler passes, and always `principal` (None:
not signed in), `csrf`, `here` (the path), `asset(name)` and the filters of `pages.py`; everything is escaped.

Forms are plain `<form method="post">`, work without scripts, and contain `{% include "parts/csrf.html.j2" %}`.
`<details>` guards what cannot be undone. A `Refusal` or `InputError` becomes an error page, or, for a request of htmx,
a message at the top of the page.

Content policy: no inline script or style, no style attributes, no hx-on, no js: values. Numbers for charts go into
`data-...` attributes (`{{ numbers|tojson|forceescape }}`); scripts must not use innerHTML (Trusted Types).
"""
