"""A mutant put into a process that has imported the module: the function's code is exchanged, the statement's text, or
the variable's value wherever a module has it.
"""

import gc
import sys
from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nats3_dagster.catalog.session import statements

# Functions by the file of their code, as `functions_by_file` found them.
Functions = Mapping[str, list[FunctionType]]


class NotPutInError(Exception):
    """The process has no such function."""


def functions_by_file(files: set[str]) -> Functions:
    """Returns the functions whose code is of one of these files. Each is an object that the collector knows, whatever
    wraps it."""
    found: dict[str, list[FunctionType]] = {file: [] for file in files}
    for one in gc.get_objects():
        if type(one) is FunctionType and (own := found.get(one.__code__.co_filename)) is not None:
            own.append(one)
    return found


def put_in_function(functions: Functions, file: str, name: str, line: int, source: bytes) -> None:
    """Exchanges the code of the function that begins in this line, and of no other. Raises NotPutInError."""
    code = codes_by_place(compile(source, file, "exec")).get((name, line))
    own = [one for one in functions[file] if one.__code__.co_qualname == name and one.__code__.co_firstlineno == line]
    if code is None or not own:
        raise NotPutInError(f"{file} has no function {name} in line {line}")
    try:
        for one in own:
            one.__code__ = code
    except ValueError as error:  # it uses another number of variables of the function around it, or no super() any more
        raise NotPutInError(f"{name}: {error}") from error


def put_in_variable(module: str, source: bytes) -> None:
    """Runs a changed module beside the one that is there, and gives each variable that is another one now its new value
    in every module that has it. Functions and classes stay. Raises what the changed expression raises."""
    there = vars(sys.modules[module])
    fresh: dict[str, Any] = {**there, "__name__": module}
    exec(compile(source, module, "exec"), fresh)
    for name, old in list(there.items()):
        if (
            name.startswith("__")
            or callable(old)
            or isinstance(old, ModuleType)
            or not isinstance(old, Hashable | dict)
        ):
            continue
        if (new := _with_old_names(fresh[name], there)) != old:
            for other in list(sys.modules.values()):
                if getattr(other, "__dict__", {}).get(name) is old:
                    setattr(other, name, new)


def put_in_statement(name: str, text: str) -> None:
    """Gives a statement of SQL its changed text."""
    statements._statements()[name] = statements.parse(text)[name].encode()


def _with_old_names(value: Any, names: Mapping[str, Any]) -> Any:
    """Returns a table with the members of the enumerations that the process has already, instead of those that the
    second run of the module made."""
    if isinstance(value, dict):
        return {_with_old_names(k, names): _with_old_names(v, names) for k, v in value.items()}  # pyright: ignore
    if isinstance(value, frozenset):
        return frozenset(_with_old_names(one, names) for one in value)  # pyright: ignore
    if isinstance(value, Enum):
        return names[type(value).__name__][value.name]
    return value


def codes_by_place(module: CodeType) -> dict[tuple[str, int], CodeType]:
    """Returns the code of each function of a compiled module by its qualified name and first line."""
    return {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)
