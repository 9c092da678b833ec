"""How bytes travel: the measuring transport over plain sockets, the ordinary one for TLS and proxies, and which to take."""
