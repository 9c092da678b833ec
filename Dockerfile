# One image for Locust, the sidecar and the simulator; x86-64 and aarch64 (every dependency has wheels for both).
# Override BASE with a digest to pin harder: --build-arg BASE=python:3.12.11-slim-bookworm@sha256:…
ARG BASE=python:3.12.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /venv
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE THIRD_PARTY_LICENSES.md ./
COPY src ./src
COPY locustfiles ./locustfiles
COPY scenarios ./scenarios
RUN /venv/bin/pip install --constraint constraints.txt ".[gpu]"

FROM ${BASE}
# Locust needs no rights; compose gives the sidecar `user: root` and says why.
RUN useradd --uid 10001 --create-home loadkit && mkdir -p /app /runs && chown loadkit /runs
COPY --from=build /venv /venv
COPY locustfiles /app/locustfiles
COPY scenarios /app/scenarios
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app
USER loadkit
EXPOSE 8089 5557 9101 8000
CMD ["loadkit", "--help"]
