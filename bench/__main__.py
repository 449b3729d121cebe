"""Ask the questions of `bench/questions`: all of them, or those named.

    python -m bench [NAME …] [--peers] [--against REVISION] [--only TEXT …] [--rounds 5] [--smoke] [--out build/bench]

Contenders are ours and statements written by hand, with `--peers` also the libraries that `make bench-peers` installs, with
`--against` ours at another commit of this repository instead of the statements. Answers are printed, at the end with what is
asked of them (`bars.py`), and written as JSON lines, as tables and as a plot. `--smoke` asks with a handful of jobs, to see that
nothing rots.
"""

import argparse
import asyncio
import importlib
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

from bench import bars, questions
from bench.former import former, show
from bench.lab import Lab
from bench.plot import plot
from bench.programs import FLOOR, LIBRARIES, OURS, OWN, PREFETCHING, Contender, Programs
from bench.results import Results
from bench.server import connected, server, settings
from bench.summary import summary

_ALL = [module.name for module in pkgutil.iter_modules(questions.__path__)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="How fast is it?")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"questions: {', '.join(_ALL)}; all when none is named")
    parser.add_argument("--peers", action="store_true", help="measure other libraries, too")
    parser.add_argument("--against", metavar="REVISION", help="measure ours as of that commit beside it")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", help="only contenders with this in their name; may be said more than once"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--smoke", action="store_true", help="once, with a handful of jobs")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for what is written")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in _ALL:
            parser.error(f"no question is named {name}: there are {', '.join(_ALL)}")
    return arguments


def _question(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")


async def _ask_all(dsn: str, arguments: argparse.Namespace, then: tuple[Contender, ...]) -> None:
    async with connected(dsn) as connection, Programs(reusing=arguments.smoke) as programs:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        results = Results(await settings(connection))
        for name, value in results.settings.items():
            print(f"{name}: {value}")
        lab = Lab(connection, dsn, results, programs, rounds=0 if arguments.smoke else arguments.rounds)
        own = (OURS, FLOOR) if arguments.smoke else (OURS, PREFETCHING) if then else OWN
        known = own + then + (LIBRARIES if arguments.peers else ())
        lab.contenders = [one for one in known if any(text in one.name for text in arguments.only or [""])]
        for name in arguments.names or _ALL:
            module = importlib.import_module(f"bench.questions.{name}")
            await module.ask(lab)
            await lab.forget()
            results.show(module.WORKLOADS, _question(module))
            results.write(arguments.out / "results.jsonl")
        results.show_missing()
    lines = results.lines()
    if arguments.smoke:
        bars.check(lines)
    elif then:
        show(lines, arguments.against)
    else:
        bars.show(lines)
    (arguments.out / "summary.md").write_text(f"{summary(lines)}\n{bars.markdown(lines)}", encoding="utf-8")
    plot(lines, arguments.out / "results.svg")


def main() -> None:
    arguments = _arguments()
    before = former(arguments.against) if arguments.against else nullcontext(())
    with before as then, server(durable=not arguments.smoke) as dsn:
        asyncio.run(_ask_all(dsn, arguments, then))


if __name__ == "__main__":
    main()
