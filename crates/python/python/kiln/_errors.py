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
    """The model, an array or an option is invalid: provide a valid one."""


class TracingError(InvalidInputError, TypeError):
    """A traced function does something that tracing does not allow, such as branching on the value of an array."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not (yet) supported by Kiln."""


class LimitError(Error):
    """A limit was exceeded: raise it if the source is trusted."""


class ResourceError(Error, MemoryError):
    """Memory or another resource ran out: retry with less."""


class MachineError(Error, OSError):
    """The machine lacks a required feature or library, or a file cannot be read."""

    # OSError would interpret the first two arguments as an errno and a message.
    def __new__(cls, message: str, code: str, kind: str):
        return OSError.__new__(cls, message)


class CancelledError(Error):
    """The caller cancelled the operation."""


class InternalError(Error):
    """A defect in Kiln: report it."""


class _Captured(BaseException):
    """Stops the function of a loop or branch, which then runs again with a value from outside passed in."""
