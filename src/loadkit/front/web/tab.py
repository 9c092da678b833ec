"""Adds tab, routes and form check to Locust's Flask app, and keeps the live series going.

Locust renders a generic page for a tab that it does not know; our script (`assets/live.js`) draws into it. All routes stand
under `<base path>/loadkit/`, behind Locust's login where that is on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import gevent
from flask import Blueprint, Flask, Response, jsonify, make_response, request, send_file

from loadkit import assets
from loadkit.errors import UsageError
from loadkit.front.html_report import section_of, with_section
from loadkit.front.web.exports import EXPORTS, Exports
from loadkit.front.web.state import state
from loadkit.language import Language, language_of_browser, table
from loadkit.live import Live

Check = Callable[[dict[str, str]], UsageError | None]

TICK_S = 1.0
ASSETS = {
    "live.js": ("live.js", "application/javascript"),
    "live.css": ("live.css", "text/css"),
    "palette.css": ("palette.css", "text/css"),
    "uplot.js": (assets.UPLOT_SCRIPT, "application/javascript"),
    "uplot.css": (assets.UPLOT_STYLE, "text/css"),
}
_NO_HOST = '"missing_host_warning": true'
"""Locust's hint to give a host; here an empty one means the embedded simulator."""
_SCRIPT = '<script defer src="./loadkit/assets/uplot.js"></script><script defer src="./loadkit/assets/live.js"></script>'


def install(environment: Any, live: Live, *, check: Check) -> None:
    """Put the tab into `environment.web_ui`; call once at `init`, on the master or the single process.

    `check` is asked before each start with the submitted form; what it returns is shown there, and the run does not start.
    """
    ui = environment.web_ui
    ui.template_args["extended_tabs"] = [{"title": "LLM", "key": "loadkit"}]
    ui.template_args["extended_csv_files"] = [
        {"href": f"./loadkit/{name}", "title": export.title} for name, export in EXPORTS.items()
    ]
    _add_routes(ui, environment, live)
    _extend(ui.app, live, check)
    gevent.spawn(_tick, live)


def _tick(live: Live) -> None:
    while True:
        live.tick(time.monotonic_ns())
        gevent.sleep(TICK_S)


def _add_routes(ui: Any, environment: Any, live: Live) -> None:
    prefix = getattr(environment.parsed_options, "web_base_path", None) or ""
    blueprint = Blueprint("loadkit", __name__, url_prefix=f"{prefix}/loadkit")
    exports = Exports(live)

    @blueprint.get("/assets/<name>")
    @ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def asset(name: str) -> Response:
        if name not in ASSETS:
            return make_response("no such file", 404)
        file, kind = ASSETS[name]
        response = make_response(assets.text(file))
        response.headers["Content-Type"] = f"{kind}; charset=utf-8"
        response.headers["Cache-Control"] = "max-age=3600"
        return response

    @blueprint.get("/state")
    @ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def live_state() -> Response:
        known = request.args.get("generation", -1, int), request.args.get("from", 0, int)
        return jsonify(state(live, exports, environment.runner, known=known, language=_language()))

    @blueprint.get("/words")
    @ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def words() -> Response:
        return jsonify({"language": _language(), "words": table(_language())})

    @blueprint.get("/<name>")
    @ui.auth_required_if_enabled  # type: ignore[untyped-decorator]
    def export(name: str) -> Response:
        found = exports.file(name)
        if found is None:
            return make_response("There is no such file yet: it is written when a run has ended.\n", 404)
        path, kind = found
        aside = not kind.startswith("text/html")
        response: Response = send_file(path, mimetype=kind, as_attachment=aside, download_name=path.name, max_age=0)
        return response

    ui.app.register_blueprint(blueprint)


_MARK = "\ufeff".encode()
_DOWNLOADS = ("locust.request_stats_csv", "locust.failures_stats_csv", "locust.exceptions_csv")
"""Locust's own CSV downloads; Excel needs the mark to read Chinese. The full history is a file that has it."""


def _language() -> Language:
    return language_of_browser(request.headers.get("Accept-Language", ""))


def _extend(app: Flask, live: Live, check: Check) -> None:
    @app.before_request
    def refuse_a_wrong_form() -> Response | None:
        if request.endpoint != "locust.swarm":
            return None
        problem = check(request.form.to_dict())
        return None if problem is None else jsonify({"success": False, "message": str(problem)})

    @app.after_request
    def add_ours(response: Response) -> Response:
        if request.endpoint == "locust.index" and response.mimetype == "text/html":
            page = response.get_data(as_text=True).replace(_NO_HOST, _NO_HOST.replace("true", "false"))
            response.set_data(page.replace("</body>", f"{_SCRIPT}</body>"))
        elif request.endpoint == "locust.request_stats" and response.is_json:
            _keep_asking(response)
        elif request.endpoint == "locust.stats_report" and live.ended_as is not None:
            response.set_data(with_section(response.get_data(as_text=True), section_of(live.folder)))
        elif request.endpoint in _DOWNLOADS and response.mimetype == "text/csv":
            response.set_data(_MARK + response.get_data())
        return response


def _keep_asking(response: Response) -> None:
    """Locust's page stops asking when it sees any state but running, and offers "New" only in the state stopped.

    While the report is made (some seconds) the state is `cleanup`: a page that saw it would have no button until it is loaded
    again. Locust hands out the same response object for two seconds, so this may see its own work again.
    """
    body = response.get_json()
    if body.get("state") in ("cleanup", "stopping"):
        response.set_data(json.dumps({**body, "state": "running"}))
