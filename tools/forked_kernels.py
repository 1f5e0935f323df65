"""Jupyter kernels that are forks of one process, which has imported jax.

A new interpreter would need a second for the imports, for each notebook. jax has not started XLA in
that process, and the packages of this repository are not imported there.

As a program, this file is that process. Each line of its standard input is a JSON list: the
connection file, the folder and the environment of a kernel. The line that answers it is the number
of the kernel's process.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from typing import Any

from jupyter_client import AsyncKernelManager


@functools.cache
def _parent() -> subprocess.Popen[str]:
    """Start the process of which all kernels are forks. It ends when this process ends."""
    command = [sys.executable, __file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class _Kernel:
    """The process of a kernel, with the methods of `Popen` that Jupyter calls."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return None while the process runs, and then 0: Jupyter does not use the exit status."""
        try:
            self.send_signal(0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        """Return the exit status. Jupyter waits only for a process that has ended."""
        return 0

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class ForkedKernelManager(AsyncKernelManager):
    """Starts a kernel as a fork of the process that has imported jax."""

    async def _async_launch_kernel(
        self, _command: list[str], cwd: str, env: dict[str, str], **_more: Any
    ) -> None:
        parent = _parent()
        assert parent.stdin is not None
        assert parent.stdout is not None
        print(json.dumps([self.connection_file, cwd, env]), file=parent.stdin, flush=True)
        kernel = _Kernel(int(parent.stdout.readline()))
        provisioner: Any = self.provisioner
        provisioner.process = kernel
        # The kernel is the leader of a group, which has the processes that it starts.
        provisioner.pid = provisioner.pgid = kernel.pid


def _main() -> None:
    import jax  # noqa: F401  (for the kernels)
    from ipykernel.kernelapp import IPKernelApp

    del sys.path[0]  # the folder of this file
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the kernels
    parent = os.getpid()
    for line in sys.stdin:
        process = os.fork()
        if process:
            os.setpgid(process, process)
            print(process, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, sys.stdin.fileno())
        os.dup2(nothing, sys.stdout.fileno())
        connection_file, folder, environment = json.loads(line)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        # The kernel ends if its parent does.
        IPKernelApp.launch_instance(
            ["-f", connection_file, f"--IPKernelApp.parent_handle={parent}"]
        )
        return


if __name__ == "__main__":
    _main()
