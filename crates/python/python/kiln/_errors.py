"""The exceptions that Kiln raises."""


class Error(Exception):
    """An error with a stable ``code``, such as ``"E0901"``, and a ``kind``, such as ``"invalid input"``.

    The book explains every code.
    """

    def __init__(self, message: str, code: str, kind: str) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.code} {self.args[0]}"

    def __reduce__(self):
        return type(self), (self.args[0], self.code, self.kind)


class InvalidInputError(Error, ValueError):
    """The model, an array or an option is wrong: provide another."""


class TracingError(InvalidInputError, TypeError):
    """A traced function does what tracing does not allow: a branch on a value, a number that a dtype cannot represent."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not (yet) supported by Kiln."""


class LimitError(Error):
    """A limit was exceeded: raise it if the source is trusted."""


class ResourceError(Error, MemoryError):
    """Memory or another resource ran out: retry with less."""


class MachineError(Error, OSError):
    """The machine lacks something, or a file cannot be read: fix that."""

    # OSError would take the first two arguments for a number and a message.
    def __new__(cls, message: str, code: str, kind: str):
        return OSError.__new__(cls, message)


class CancelledError(Error):
    """The caller asked to stop."""


class InternalError(Error):
    """A defect in Kiln: report it."""


class _Captured(BaseException):
    """Ends the function of a loop or branch, which is run again with a value of its surroundings passed in."""
