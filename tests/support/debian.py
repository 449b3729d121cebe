"""Install what the system tests need from Debian: `python -m tests.support.debian`. Nothing happens when it is there.

Needs root, or sudo that asks nothing. The packages' own services are not started.
"""

import os
import shutil
import subprocess
import sys

#: Program, and the package that has it.
NEEDED = {"chromium": "chromium", "pgbouncer": "pgbouncer", "promtool": "prometheus"}


def missing() -> list[str]:
    """The packages whose programs are not there."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return sorted({package for program, package in NEEDED.items() if shutil.which(program, path=path) is None})


def main() -> int:
    """Install what is missing; says how when it cannot."""
    packages = missing()
    if not packages:
        return 0
    apt = shutil.which("apt-get")
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if apt is None or (prefix and shutil.which("sudo") is None):
        sys.stderr.write(f"the system tests need {', '.join(packages)}: install them, or run this as root on Debian\n")
        return 1
    environment = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    sys.stderr.write(f"installing {', '.join(packages)}\n")
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run([*prefix, *environment, apt, "-qq", *arguments], stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
