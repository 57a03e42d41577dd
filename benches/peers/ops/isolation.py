"""Calls functions in a separate process, so that a peer that crashes ends its measurement and not the run."""
import multiprocessing

PROCESSES = multiprocessing.get_context("fork")
LIMIT = 300  # Seconds.


class Crashed(Exception):
    """The process ended without a result."""


def isolated(function, *arguments):
    """The result of a function, called in a forked process. No threads may have been started before."""
    receive, send = PROCESSES.Pipe(duplex=False)

    def work():
        send.send(function(*arguments))

    process = PROCESSES.Process(target=work)
    process.start()
    send.close()
    try:
        if not receive.poll(LIMIT):
            raise Crashed(f"no result within {LIMIT} seconds")
        return receive.recv()
    except EOFError:
        process.join()
        raise Crashed(f"ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receive.close()
