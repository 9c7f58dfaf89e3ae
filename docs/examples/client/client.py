"""A client under test: it asks for each URL in turn with a timeout of 1 s, keeps
the connection where the next URL has the same host, and prints what it got.

    python3 client.py [--cacert FILE] URL...
"""

import argparse
import http.client
import ssl
import time
from urllib.parse import urlsplit

TIMEOUT = 1.0  # seconds that a single read or write may take, not the whole answer


def connect(url, cacert):
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=cacert)
        return http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT, context=context)
    return http.client.HTTPConnection(url.netloc, timeout=TIMEOUT)


def get(connection, path):
    connection.request("GET", path, headers={"X-Key": "python"})
    answer = connection.getresponse()
    text = f"{answer.status}, {len(answer.read())} bytes"
    if wait := answer.getheader("Retry-After"):
        text += f", Retry-After {wait}"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cacert")
    parser.add_argument("url", nargs="+", type=urlsplit)
    args = parser.parse_args()
    connections = {}
    for url in args.url:
        host = url.scheme, url.netloc
        if host not in connections:
            connections[host] = connect(url, args.cacert)
        began = time.monotonic()
        try:
            text = get(connections[host], url.path)
        except (OSError, http.client.HTTPException) as error:
            text = f"{type(error).__name__}: {error}"
            connections.pop(host).close()
        print(f"{url.path:16} {time.monotonic() - began:5.2f} s  {text}")


main()
