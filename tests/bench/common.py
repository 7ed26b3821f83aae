# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks' scripts share: to build and run programs, and to print tables."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import picture

HERE = pathlib.Path(__file__).resolve().parent
TOP = next((d for d in HERE.parents if (d / "bin/paracuda").exists()), None)
if TOP is None:
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: there is no bin/paracuda: run make build")

PARACUDA = TOP / "bin/paracuda"


def gpu():
    """The GPU to execute on, if nobody says."""
    found = shutil.which("nvidia-smi") and not subprocess.run(
        ["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    return "cuda" if found else "soft"


def compiler():
    """The first nvcc that there is."""
    home = pathlib.Path.home() / ".cache/paracuda"
    cached = str(pathlib.Path(os.environ.get("PARACUDA_CACHE", home)) / "cuda-12.4/nvcc")
    for nvcc in (os.environ.get("NVCC"), cached, "nvcc", "/usr/local/cuda/bin/nvcc"):
        if nvcc and shutil.which(nvcc):
            return nvcc
    sys.exit("bench: there is no nvcc: set NVCC")


def build(program, soft, log):
    """Compiles a program from the source of its name, if need be, and says whether it did."""
    program.parent.mkdir(parents=True, exist_ok=True)
    source = HERE / f"{program.name}.cu"
    if program.exists() and program.stat().st_mtime > max(
            f.stat().st_mtime for f in (source, *HERE.glob("*.h"))):
        return False
    arch = "75" if soft else "90"
    command = [compiler(), "-O2", "-cudart", "static",
               f"-gencode=arch=compute_{arch},code=[compute_{arch},sm_{arch}]",
               "-o", str(program), str(source), "-lpthread", "-ldl"]
    if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode:
        sys.exit(f"bench: {source.name} could not be built: see {log.name}")
    return True


def execute(command, limit):
    """Runs a command for so many seconds at most.

    Returns its exit code, or "timeout", and what it printed.
    """
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, start_new_session=True)
    code = None
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        code = "timeout"
        child.terminate()
        try:
            out, err = child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
    return code or child.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def calibrate(program):
    """How many iterations of the program share's kernel take a microsecond."""
    per_us = 100.0
    for _ in range(3):
        tried = int(1000 * per_us)
        code, out, err = execute([str(program), "--calibrate", str(tried)], 60)
        if code:
            sys.exit(f"the kernel can't be measured: {err.strip()[-300:]}")
        took = next(float(line.split()[1]) for line in out.splitlines()
                    if line.startswith("kernel "))
        per_us = tried / took
    return per_us


def machine(soft):
    if soft:
        return "no GPU: the software GPU"
    query = ["nvidia-smi", "--query-gpu=name,driver_version,pci.bus_id", "--format=csv,noheader"]
    said = subprocess.run(query, stdout=subprocess.PIPE).stdout.decode()
    name, driver, bus = said.splitlines()[0].split(", ")
    nodes = len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))
    node = pathlib.Path("/sys/bus/pci/devices", bus[4:].lower(), "numa_node")
    near = node.read_text().strip() if node.exists() else "unknown"
    return (f"{name}, {driver}, {os.cpu_count()} processors, {nodes} NUMA nodes, "
            f"the GPU at node {near}")


def judge(reached):
    rows = [["goal", "limit", "value", "reached"]]
    for text, value, limit, good in reached:
        rows.append([text, limit, "-" if value is None else picture.short(value),
                     "not measured" if good is None else "yes" if good else "no"])
    return markdown(rows)


def markdown(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines) + "\n"
