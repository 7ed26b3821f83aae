// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nvmlTools is where the distribution's nvidia-smi and pynvml lie.
func nvmlTools(t *testing.T) string {
	t.Helper()
	dir := cached("nvml-550")
	if _, err := os.Stat(filepath.Join(dir, "nvidia-smi")); err != nil {
		skip(t, "neither nvidia-smi nor pynvml here: run scripts/fetch-nvml: %v", err)
	}
	return dir
}

const softUUID = "GPU-50617261-6375-6461-536f-667447505531"

// What is used and free of a VM whose programs use no memory: a context takes 8 MiB, and the
// workers of nvidia-smi and of the next program may have one each.
const (
	softUsed = `(0|8|16)MiB`
	softFree = `(2048|2040|2032) MiB`
	softBoth = `(0 MiB, 2048|8 MiB, 2040|16 MiB, 2032) MiB`
)

// TestNvidiaSMI runs Debian's nvidia-smi on the guests' libnvidia-ml.so.1. What a VM doesn't know
// must be N/A, not a number.
func TestNvidiaSMI(t *testing.T) {
	t.Parallel()
	runs := []struct {
		id, args string
		want     *regexp.Regexp
	}{
		{"table", "",
			regexp.MustCompile(`(?s)CUDA Version: 13\.0 .*\|   0  Paracuda Software GPU ` +
				`.* 00000000:01:00\.0 Off .*` +
				`\| N/A   N/A  N/A  +N/A /  N/A  \| +` + softUsed + ` /   2048MiB \|  +\d+%  .*` +
				`No running processes found`)},
		{"list", "-L",
			regexp.MustCompile(`^GPU 0: Paracuda Software GPU \(UUID: ` + softUUID + `\)\n$`)},
		{"query",
			"--query-gpu=name,uuid,pci.bus_id,memory.total,memory.used,memory.free,compute_cap," +
				"utilization.gpu,temperature.gpu,power.draw" +
				" --format=csv,noheader", regexp.MustCompile(`^Paracuda Software GPU, ` + softUUID +
				`, 00000000:01:00\.0, 2048 MiB, ` + softBoth +
				`, 9\.0, \d+ %, \[N/A\], \[N/A\]\n$`)},
		{"processes", "--query-compute-apps=pid,used_memory --format=csv,noheader",
			regexp.MustCompile(`^$`)},
		{"all", "-q",
			regexp.MustCompile(`(?s)^.*Product Architecture +: Hopper\n.*GPU UUID +: ` + softUUID +
				`\n.*Processes +: None\n\n$`)},
		{"xml", "-q -x",
			regexp.MustCompile(`(?s)<uuid>` + softUUID + `</uuid>.*</nvidia_smi_log>`)},
		{"topology", "topo -m", regexp.MustCompile(`(?m)^GPU0\s+X `)},
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		smi := filepath.Join(nvmlTools(t), "nvidia-smi")
		var jobs []job
		for _, r := range runs {
			jobs = append(jobs,
				job{r.id, vm.limit, append([]string{smi}, strings.Fields(r.args)...)})
		}
		got := vm.batch(t, jobs)
		for _, r := range runs {
			o := got[r.id]
			if o.exit != 0 || o.stderr != "" || !r.want.MatchString(o.stdout) {
				t.Errorf("nvidia-smi %s: exit code %d, standard error %q:%s", r.args, o.exit,
					o.stderr, tail(o.stdout))
			}
			for _, bad := range []string{"Function Not Found", "Unknown Error", " W\n", " mV\n",
				" MHz"} {
				if strings.Contains(o.stdout, bad) {
					t.Errorf("nvidia-smi %s says %q:%s", r.args, bad, tail(o.stdout))
				}
			}
		}
	})
}

// TestPynvml asks what Python programs ask NVML.
func TestPynvml(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		tools := nvmlTools(t)
		r := vm.run(t, vm.limit, "--", "env", "PYTHONPATH="+filepath.Join(tools, "python"),
			"PYTHONDONTWRITEBYTECODE=1",
			python(t), filepath.Join(root, "tests/scripts/nvml.py"),
			filepath.Join(tools, "nvidia-smi"))
		want := "uninitialised\nas PyTorch asks\nhandles\nas CUDA says\nprocesses\n" +
			"joined to nothing\nwhat isn't known says so\n" +
			"every function is there\n"
		if r.exit != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("exit code %d, output %q%s", r.exit, r.stdout, tail(r.stderr))
		}
	})
}

// TestNVMLAlone has what a container is given: the device and the two libraries, each in a place of
// its own.
func TestNVMLAlone(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		script := "set -e; mkdir /tmp/cuda /tmp/nvml; " +
			"cp -P \"$1\"/libcuda.so* /tmp/cuda; cp -P \"$1\"/libnvidia-ml.so* /tmp/nvml; " +
			"LD_LIBRARY_PATH=/tmp/cuda:/tmp/nvml \"$2\" --query-gpu=name,memory.free " +
			"--format=csv,noheader; cp -r /tmp/nvml/* /tmp/cuda; " +
			"cd /; env -i LD_LIBRARY_PATH=/tmp/cuda \"$2\" -L; rm -r /tmp/cuda /tmp/nvml"
		libraries := filepath.Join(root, "build/guest/lib")
		r := vm.run(t, vm.limit, "--", "sh", "-c", script, "sh", libraries,
			filepath.Join(nvmlTools(t), "nvidia-smi"))
		want := regexp.MustCompile(`^Paracuda Software GPU, ` + softFree +
			`\nGPU 0: Paracuda Software GPU \(UUID: ` + softUUID + `\)\n$`)
		if r.exit != 0 || !want.MatchString(r.stdout) || r.stderr != "" {
			t.Errorf("exit code %d, output %q%s", r.exit, r.stdout, tail(r.stderr))
		}
	})
}
