"""A server that speaks S3's protocol (moto), on loopback, with one empty bucket.

Prints its address, and serves until its standard input is closed.
"""

import sys
import urllib.request

from moto.server import ThreadedMotoServer


def main():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    bucket = urllib.request.Request(f"http://{host}:{port}/fleet", method="PUT")
    urllib.request.urlopen(bucket, timeout=60).read()
    print(f"{host}:{port}", flush=True)
    sys.stdin.read()
    server.stop()


main()
