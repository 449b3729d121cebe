"""What was declared, over a tree of routers: each name once, and nothing more after an app was opened."""

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar
from weakref import WeakSet, ref

from asyncjobs.declare.definition import JobDefinition
from asyncjobs.declare.limit import check_limits
from asyncjobs.declare.planned import Planned
from asyncjobs.errors import AlreadyOpen, ConfigurationError, DuplicateName
from asyncjobs.open.owning_app import OwningApp


class Declarations:
    """One router's declarations, and its place in the tree. Parents are held weakly: a router may outlive its apps."""

    #: How often what includes what has changed, of all there are: whoever remembers something of a tree looks again after that.
    changes: ClassVar[int] = 0

    def __init__(self, declared_at: str) -> None:
        self.declared_at = declared_at
        self.handlers: dict[str, JobDefinition] = {}  # by name and by alias
        self.planned: list[Planned] = []
        self.app: ref[OwningApp] | None = None  # of the root
        self.is_closed = False
        self.children: list[Declarations] = []
        self.parents: WeakSet[Declarations] = WeakSet()

    def add(self, definition: JobDefinition) -> None:
        """Take in a job type. DuplicateName when a tree that this router is in has one of its names; AlreadyOpen."""
        self.refuse_when_open(f'job "{definition.name}"')
        names = (definition.name, *definition.aliases)
        for name in names:
            known = self._known_anywhere(name)
            if known is not None:
                raise _duplicate(name, known, definition)
            if names.count(name) > 1:
                raise _duplicate(name, definition, definition)
        self.handlers.update(dict.fromkeys(names, definition))
        definition.apps = self.apps

    def plan(self, planned: Planned) -> None:
        """Take in a schedule, or what later work will build. DuplicateName; AlreadyOpen."""
        self.refuse_when_open(f'{planned.what} "{planned.name}"')
        self._refuse_planned_twice(planned)
        self.planned.append(planned)

    def include(self, child: "Declarations") -> None:
        """Take in another router's declarations, those to come as well. Twice is once. DuplicateName; AlreadyOpen."""
        if any(child is one for one in self.children):
            return
        self.refuse_when_open(f"a JobRouter ({child.declared_at})")
        if any(one is child for one in self.ancestors()):
            raise ConfigurationError(f"a JobRouter ({child.declared_at}) cannot include itself.")
        for name, definition in child.all_handlers().items():
            known = self._known_anywhere(name)
            if known is not None and known is not definition:
                raise _duplicate(name, known, definition)
        for planned in child.all_planned():
            self._refuse_planned_twice(planned)
        self.children.append(child)
        child.parents.add(self)
        _count_change()

    def belong_to(self, app: OwningApp) -> None:
        """Take note that these are the declarations of an app itself."""
        self.app = ref(app, _count_change)
        _count_change()

    def refuse_when_open(self, what: str) -> None:
        """AlreadyOpen when an app that includes this router was opened."""
        if any(one.is_closed for one in self.ancestors()):
            raise AlreadyOpen(f"{what} declared after AsyncJobs was opened: declare it at import, before the first open.")

    def tree(self) -> Iterator["Declarations"]:
        """This router's declarations and those of all it includes, each once."""
        return self._reached(lambda one: one.children)

    def ancestors(self) -> Iterator["Declarations"]:
        """This router's declarations and those of all that include it, each once."""
        return self._reached(lambda one: one.parents)

    def _reached(self, following: Callable[["Declarations"], Iterable["Declarations"]]) -> Iterator["Declarations"]:
        seen: dict[int, Declarations] = {}
        waiting: list[Declarations] = [self]
        while waiting:
            one = waiting.pop(0)
            if id(one) not in seen:
                seen[id(one)] = one
                waiting.extend(following(one))
        yield from seen.values()

    def all_handlers(self) -> dict[str, JobDefinition]:
        """Every handler of the tree, by name and by alias. ConfigurationError when two limits of one name differ."""
        found = {name: definition for one in self.tree() for name, definition in one.handlers.items()}
        check_limits(found)
        return found

    def all_planned(self) -> list[Planned]:
        """Everything planned in the tree."""
        return [planned for one in self.tree() for planned in one.planned]

    def apps(self) -> list[OwningApp]:
        """The apps that include this router."""
        found: list[OwningApp | None] = [one.app() for one in self.ancestors() if one.app is not None]
        return [app for app in found if app is not None]

    def _refuse_planned_twice(self, planned: Planned) -> None:
        for root in self.ancestors():
            for other in root.all_planned():
                if (other.what, other.name) == (planned.what, planned.name) and other is not planned:
                    raise DuplicateName(planned.what, planned.name, other.declared_at, planned.declared_at)

    def _known_anywhere(self, name: str) -> JobDefinition | None:
        found = (one.handlers.get(name) for root in self.ancestors() for one in root.tree())
        return next((definition for definition in found if definition is not None), None)


def _count_change(_gone: object = None) -> None:
    Declarations.changes += 1


def _duplicate(name: str, first: JobDefinition, second: JobDefinition) -> DuplicateName:
    """What is said of a name that two types have, or one twice: as its own, or as a former one."""
    if first is second:
        hint = f" It is among its own aliases, {', '.join(first.aliases)}: an alias is a former name, given once."
    elif first.name in second.aliases and second.name in first.aliases:
        hint = f' "{first.name}" and "{second.name}" are aliases of each other: an alias is a former name, only one is in use.'
    else:
        former = [f' "{name}" is an alias of "{one.name}" ({one.declared_at}).' for one in (first, second) if one.name != name]
        hint = "".join(former)
    return DuplicateName("job", name, first.declared_at, second.declared_at, hint=hint)
