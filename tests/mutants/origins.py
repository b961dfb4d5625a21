"""Planted faults of what web pages of other sites may do."""

from tests.mutants.fault import Fault

ORIGINS = "service/test_origins.py"
REPORT = f"{ORIGINS}::test_a_page_can_read_what_became_of_its_report"
OTHERS = f"{ORIGINS}::test_others_are_answered_as_if_there_was_no_list"
DEVICES = f"{ORIGINS}::test_only_the_routes_of_devices_are_for_pages"
FILE = "service/web/guard.py"

FAULTS = [
    Fault(
        "any origin is echoed",
        "Every page in the world may read what the service replies to a device.",
        FILE,
        "known = origin in self._listed and",
        "known = origin and",
        (OTHERS,),
    ),
    Fault(
        "origins that begin like a listed one",
        "An origin is let in if it begins with one that is listed, such as https://app.example.evil.",
        FILE,
        "known = origin in self._listed and",
        "known = origin.startswith(tuple(self._listed)) and",
        (OTHERS,),
    ),
    Fault(
        "cookies of pages are accepted",
        "Browsers send the cookies of the console along with the requests of other pages.",
        FILE,
        'return [(b"access-control-allow-origin", origin), VARY, EXPOSED] if known',
        'return [\n            (b"access-control-allow-origin", origin),\n            VARY,\n            EXPOSED,\n'
        '            (b"access-control-allow-credentials", b"true"),\n        ] if known',
        (REPORT,),
    ),
    Fault(
        "pages may call every route",
        "A page that is listed may also read what operators read.",
        FILE,
        "if route.for_devices:",
        "if True:",
        (DEVICES,),
    ),
    Fault(
        "a cache serves one page's reply to another",
        "Nothing says that a reply depends on who has asked.",
        FILE,
        'VARY = (b"vary", b"Origin")',
        'VARY = (b"vary", b"Accept")',
        (REPORT,),
    ),
    Fault(
        "a wildcard is an origin",
        "`--allow-origin '*'` is accepted.",
        FILE,
        "        found = ORIGIN.fullmatch(origin)\n",
        '        found = ORIGIN.fullmatch(origin if origin != "*" else "http://x")\n',
        (f"{ORIGINS}::test_what_no_browser_sends_is_no_origin",),
    ),
    Fault(
        "pages cannot read replies",
        "A report is answered without the headers that let a page read the reply.",
        "service/web/guard.py",
        '"headers": [*given, *readable, ',
        '"headers": [*given, *(readable if status >= 400 else ()), ',
        (REPORT,),
    ),
]
