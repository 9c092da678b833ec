"""Names of the messages between the conductor (master or single process) and the desks (wherever users are).

Locust's own runners carry them, also inside a single process, so that one code path serves every kind of run.

    to the desks:     DEAL {seat, items, hold} · RELEASE {due_ns} · STOP_NEW {} · HALT {} · CLOCK {sent_ns}
                      DOCUMENT {path, text}
    to the conductor: SEAT {seat} · READY {seat} · DONE {seat, item, completed, left} · ENDED {records} · LINES {worker, data}
                      PULSE {heartbeat} · TROUBLE {problem} · SETTLED {} · CLOCK_ASKED {asked_ns} · DOCUMENT_ASKED {path}
"""

DEAL = "loadkit.deal"
RELEASE = "loadkit.release"
STOP_NEW = "loadkit.stop_new"
HALT = "loadkit.halt"
CLOCK = "loadkit.clock"
DOCUMENT = "loadkit.document"

SEAT = "loadkit.seat"
READY = "loadkit.ready"
DONE = "loadkit.done"
ENDED = "loadkit.ended"
LINES = "loadkit.lines"
PULSE = "loadkit.pulse"
TROUBLE = "loadkit.trouble"
SETTLED = "loadkit.settled"
CLOCK_ASKED = "loadkit.clock_asked"
DOCUMENT_ASKED = "loadkit.document_asked"

TO_DESKS = (DEAL, RELEASE, STOP_NEW, HALT, CLOCK, DOCUMENT)
TO_CONDUCTOR = (SEAT, READY, DONE, ENDED, LINES, PULSE, TROUBLE, SETTLED, CLOCK_ASKED, DOCUMENT_ASKED)
