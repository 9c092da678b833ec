"""The engine process: requests in, records out, over JSON lines; it alone talks to the server and writes `records*.jsonl`.

One per Locust process, never monkey-patched. `python -m loadkit.engine FD` serves the socket with that file descriptor
(one end of a socket pair) until its other end is closed. `loadkit.engine.protocol` describes the lines.
"""
