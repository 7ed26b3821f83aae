// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// nvmlTools is the folder with Debian's nvidia-smi and pynvml.
func nvmlTools(t *testing.T) string {
	t.Helper()
	dir := cached("nvml-550")
	if _, err := os.Stat(filepath.Join(dir, "nvidia-smi")); err != nil {
		skip(t, "neither nvidia-smi nor pynvml here: run scripts/fetch-nvml: %v", err)
	}
	return dir
}

const softUUID = "GPU-50617261-6375-6461-536f-667447505531"

// The memory that is used and free in a VM whose programs use none. A context takes 8 MiB, and the
// workers of nvidia-smi and of the next program may have a context each.
const (
	softUsed = `(0|8|16)MiB`
	softFree = `(2048|2040|2032) MiB`
	softBoth = `(0 MiB, 2048|8 MiB, 2040|16 MiB, 2032) MiB`
)

// TestNvidiaSMI runs Debian's nvidia-smi with the guest's libnvidia-ml.so.1. What a VM can't know
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
				t.Errorf("nvidia-smi %s: exit code %d, standard error %q, want output like %s:%s",
					r.args, o.exit, o.stderr, r.want, tail(o.stdout))
			}
			for _, bad := range []string{"Function Not Found", "Unknown Error", " W\n", " mV\n",
				" MHz"} {
				if strings.Contains(o.stdout, bad) {
					t.Errorf("nvidia-smi %s says %q, which must not be there:%s", r.args, bad,
						tail(o.stdout))
				}
			}
		}
	})
}

// ownSMI is the guest package's small nvidia-smi.
var ownSMI = filepath.Join(root, "build/guest/lib/paracuda/nvidia-smi")

// alike are command lines for which the package's nvidia-smi prints the same as NVIDIA's, but for
// the time and the version in NVIDIA's table.
var alike = []string{
	"", "-L", "-i 0", "-i 9",
	"--query-gpu=index,count,name,gpu_uuid,pci.bus_id,pci.domain,pci.bus,pci.device," +
		"driver_version,compute_cap,compute_mode,persistence_mode --format=csv",
	"--query-gpu=memory.total,utilization.memory --format=csv",
	"--query-gpu=gpu_name,gpu_bus_id,memory.total --format=csv,noheader,nounits",
	"--query-gpu=serial,fan.speed,pstate,temperature.gpu,temperature.memory,power.draw," +
		"power.limit,enforced.power.limit,power.default_limit,power.min_limit,power.max_limit," +
		"vbios_version --format=csv",
	"--query-gpu=clocks.gr,clocks.sm,clocks.mem,clocks.video,clocks.current.sm,clocks.max.gr," +
		"clocks.max.sm,clocks.max.mem,ecc.mode.current,ecc.mode.pending,display_active," +
		"display_mode,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current," +
		"pcie.link.width.max --format=csv",
	"--query-gpu=name,no.such.field --format=csv",
	"--query-compute-apps=pid,process_name,used_memory,gpu_name,gpu_uuid,gpu_bus_id --format=csv",
}

// TestOwnNvidiaSMI compares the guest package's nvidia-smi with Debian's, in a VM with two GPUs and
// a program that uses them.
func TestOwnNvidiaSMI(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		theirs := filepath.Join(nvmlTools(t), "nvidia-smi")
		holder := filepath.Join(logDir(t), "call")
		if r := command(t, time.Minute, root, "gcc", "-O1", "-o", holder, "tests/guests/call.c",
			"-ldl"); r.exit != 0 {
			t.Fatal(r.stderr)
		}
		var script strings.Builder
		script.WriteString(`"$1" hold >/tmp/holding & while ! grep -q . /tmp/holding; do sleep 0.1
			done` + "\n")
		for _, args := range alike {
			for _, smi := range []string{theirs, ownSMI} {
				script.WriteString(smi + " " + args + "; echo \"code $?\"; echo '----'\n")
			}
		}
		script.WriteString("kill $!\n")
		r := vm.run(t, 2*vm.limit, "--gpu", "soft:2", "--", "sh", "-c", script.String(), "sh",
			holder)
		said := strings.Split(r.stdout, "----\n")
		if r.exit != 0 || len(said) != 2*len(alike)+1 {
			t.Fatalf("exit code %d, %d answers, want 0 and %d:%s%s", r.exit, len(said),
				2*len(alike)+1, tail(r.stdout), tail(r.stderr))
		}
		ofTheirs := regexp.MustCompile(`(?m)^\w{3} \w{3} [ 0-9:]+ $|NVIDIA-SMI \S+ +`)
		busy := regexp.MustCompile(`(?m)\d+%  `)
		for i, args := range alike {
			want, got := said[2*i], said[2*i+1]
			for _, varies := range []*regexp.Regexp{ofTheirs, busy} {
				want, got = varies.ReplaceAllString(want, ""), varies.ReplaceAllString(got, "")
			}
			if got != want {
				t.Errorf("nvidia-smi %s prints\n%swant\n%s", args, got, want)
			}
		}
	})
}

// TestOwnNvidiaSMIAlone: what the package's nvidia-smi says without a GPU or library, and about
// what it doesn't have.
func TestOwnNvidiaSMIAlone(t *testing.T) {
	if _, err := os.Stat(ownSMI); err != nil {
		skip(t, "run make guest first: %v", err)
	}
	ours, empty := filepath.Join(root, "build/guest/lib"), t.TempDir()
	compile(t, empty, "libnvidia-ml.so.1", "int nvmlInit_v2() { return 0; }")
	for name, tt := range map[string]struct {
		libraries string
		args      []string
		exit      int
		says      string
	}{
		"no GPU":        {ours, nil, 9, "the driver has no GPU: paracuda-doctor"},
		"no library":    {"/nowhere", nil, 12, "no libnvidia-ml.so.1: paracuda-doctor library"},
		"another's":     {empty, nil, 12, "lacks functions: paracuda-doctor library"},
		"an option":     {ours, []string{"--gpu-reset"}, 2, "hasn't --gpu-reset: see"},
		"a command":     {ours, []string{"topo", "-m"}, 2, "hasn't topo: see nvidia-smi --help"},
		"a format":      {ours, []string{"--query-gpu=name", "--format=xml"}, 2, "not xml: see"},
		"no format":     {ours, []string{"--query-gpu=name"}, 2, "--format=csv: see"},
		"not a seconds": {ours, []string{"-l", "soon"}, 2, "want seconds, not soon: see"},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, time.Minute, root, append([]string{"env",
				"LD_LIBRARY_PATH=" + tt.libraries, ownSMI}, tt.args...)...)
			if r.exit != tt.exit || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
				!strings.Contains(r.stderr, tt.says) {
				t.Errorf("exit code %d, %q, %q, want %d and %q", r.exit, r.stdout, r.stderr,
					tt.exit, tt.says)
			}
		})
	}
}

// TestPynvml calls what Python programs call of NVML.
func TestPynvml(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		tools := nvmlTools(t)
		r := vm.run(t, vm.limit, "--", "env", "PYTHONPATH="+filepath.Join(tools, "python"),
			"PYTHONDONTWRITEBYTECODE=1",
			python(t), filepath.Join(root, "tests/scripts/nvml.py"),
			filepath.Join(tools, "nvidia-smi"))
		want := "uninitialised\nas PyTorch asks\nhandles\nas CUDA says\nprocesses\n" +
			"joined to nothing\nwhat isn't known says so\n" +
			"every function is there\n"
		if r.exit != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("exit code %d, output %q, want %q:%s", r.exit, r.stdout, want, tail(r.stderr))
		}
	})
}

// TestNVMLAlone runs nvidia-smi with only what a container gets, the device and the two libraries.
// They are in two folders, then in one.
func TestNVMLAlone(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
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
			t.Errorf("exit code %d, output %q, want %s:%s", r.exit, r.stdout, want, tail(r.stderr))
		}
	})
}
