"""A receiver that keeps what it hears."""

import asyncio


class Hearing:
    """Bodies and their times (since, kernel stamp, read) in order; `over` is resolved at the end, or fails with it."""

    awaits_first = False

    def __init__(self, *, in_no_hurry: bool = False) -> None:
        self.in_no_hurry = in_no_hurry
        self.heard: list[bytes] = []
        self.times: list[tuple[int, int, int]] = []
        self.over = asyncio.get_running_loop().create_future()

    def sending(self, at_ns, *, connected_ns, abort, catch_up):
        self.abort, self.catch_up = abort, catch_up

    def written(self, at_ns):
        pass

    def headers(self, at_ns, read_ns, status, headers):
        pass

    def body(self, data, at_ns, read_ns, since_ns):
        self.heard.append(data)
        self.times.append((since_ns, at_ns, read_ns))

    def ended(self, at_ns, read_ns, *, trusted):
        self.over.set_result(None)

    def failed(self, error, at_ns, *, trusted):
        self.over.set_exception(error)
