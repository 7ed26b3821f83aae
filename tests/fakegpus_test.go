// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeDriver gives a process a /dev of its own, made in the folder $0. It has /dev/nvidiactl, as if
// NVIDIA's driver was there.
const fakeDriver = `
for name in null zero full random urandom tty ptmx; do
	: >"$0/$name" && mount --bind "/dev/$name" "$0/$name" || exit 70
done
mkdir -p "$0/shm" "$0/pts" && mount --bind /dev/shm "$0/shm" && ln -sfn /proc/self/fd "$0/fd" &&
	: >"$0/nvidiactl" && mount --bind "$0" /dev || exit 70
exec "$@"`

// fakeHost is the beginning of a command line. The command then finds a driver library for tests,
// with three GPUs of 1 GiB.
func fakeHost(t *testing.T) []string {
	t.Helper()
	notShort(t)
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		skip(t, "no mount namespace: %v: %s", err, out)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		skip(t, "no C compiler: %v", err)
	}
	library, devices := t.TempDir(), t.TempDir()
	r := command(t, time.Minute, root, "gcc", "-shared", "-fPIC", "-O1", "-DFAKE_DEVICES=3",
		"-Iguestdriver/include", "-o", filepath.Join(library, "libcuda.so.1"),
		"gpubackend/cuda/drivertest/testdata/fakecuda.c", "-lpthread")
	if r.exit != 0 {
		t.Fatal(r.stderr)
	}
	return []string{"env", "LD_LIBRARY_PATH=" + library, "unshare", "--mount",
		"sh", "-c", fakeDriver, devices}
}

// The UUIDs of the fake's first two GPUs.
const (
	fakeUUID0 = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
	fakeUUID1 = "GPU-10111213-1415-1617-191a-1b1c1d1e1f20"
)

// TestBadGPUs asks for GPUs that don't exist, for one GPU twice, and for more GPUs or memory than
// the host has. One line that names the fix says so, before anything is started.
func TestBadGPUs(t *testing.T) {
	onFake := fakeHost(t)
	socket := filepath.Join(t.TempDir(), "gpu")
	for _, c := range []struct{ gpu, message string }{
		{"cuda:3", `there is no GPU 3: the host has GPU 0 to 2 \(paracuda probe lists them\)`},
		{"cuda:0,7", `there is no GPU 7: .*paracuda probe`},
		{"cuda:GPU-ffff", `there is no GPU GPU-ffff: .*paracuda probe`},
		{"cuda:0000:99:00.0", `there is no GPU 0000:99:00\.0: .*paracuda probe`},
		{"cuda:GPU-", `want its index, its UUID or its bus id, as paracuda probe lists them`},
		{"cuda:-1", `want its index, its UUID or its bus id, as paracuda probe lists them`},
		{"cuda:1,1", `1 is GPU 1, which is named twice: name it once`},
		{"cuda:1," + fakeUUID1, `GPU-1011.* is GPU 1, which is named twice: name it once`},
		{"cuda:GPU-0001," + fakeUUID0, `GPU-0001.* is GPU 0, which is named twice: name it once`},
		{"auto:4", `3 of the host's 3 GPUs .*ask for fewer or less`},
		{"auto:1,memory=2G", `0 of the host's 3 GPUs .*paracuda probe\): ask for fewer or less`},
		{"auto:17", `want auto:N or auto:N,memory=SIZE`},
	} {
		for command, args := range map[string][]string{
			"run":    {"run", "--vm", "uml", "--gpu", c.gpu, "--", "true"},
			"device": {"device", "--socket-path", socket, "--gpu", c.gpu},
		} {
			t.Run(command+" "+c.gpu, func(t *testing.T) {
				oneLine{args: args, env: onFake[1:], message: "--gpu .*" + c.message}.check(t)
			})
		}
	}
}

// TestGPUsBeforeTheirVM: a device's GPUs are chosen when its process starts, before it is plugged
// into a VM. The arbiter chooses them. It counts what it gave to others, and gives no one a GPU
// that a VM has alone.
func TestGPUsBeforeTheirVM(t *testing.T) {
	onFake := fakeHost(t)
	t.Parallel()
	h := newSharedHost(t)
	start := func(name, gpu string, options ...string) *background {
		return inBackground(t, append(slices.Clone(onFake), append([]string{paracuda,
			"device", "--gpu", gpu, "--socket-path", filepath.Join(t.TempDir(), name),
			"--arbiter", h.socket, "--name", name, "--log-level", "warning"}, options...)...)...)
	}
	refused := func(name, gpu, message string, options ...string) {
		t.Helper()
		b := start(name, gpu, options...)
		until(t, time.Minute, name+" is refused", func() bool {
			return awaits(b.done, 100*time.Millisecond)
		})
		if !regexp.MustCompile(message).MatchString(b.said()) ||
			strings.Count(b.said(), "\n") != 1 {
			t.Errorf("%s: --gpu %s: it says %q, want one line, %s", name, gpu, b.said(), message)
		}
	}
	has := func(name string) (gpus []string) {
		t.Helper()
		until(t, time.Minute, name+" has GPUs", func() bool {
			gpus = h.gpusOf(name, onFake)
			return gpus != nil
		})
		return gpus
	}
	first := start("first", "auto:1,memory=600M")
	one := has("first")
	start("second", "auto:1,memory=600M")
	two := has("second")
	if len(one) != 1 || len(two) != 1 || one[0] == two[0] {
		t.Errorf("the first VM has %v, the second %v, want one GPU each, another one", one, two)
	}
	refused("both", "auto:2,memory=600M", `VM both: 1 of the host's 3 GPUs have 600M left that no `+
		`VM was given.*: ask for fewer or less \(paracuda probe`)
	alone := start("alone", "auto:1", "--set", "exclusive=on")
	left := has("alone")
	if len(left) != 1 || slices.Contains(append(one, two...), left[0]) {
		t.Errorf("VM alone has %v, want the GPU that isn't in %v or %v", left, one, two)
	}
	refused("named", "cuda:"+left[0], `GPU \S+ is VM alone's alone \(exclusive=on\): `+
		`give VM named another one`)
	refused("any", "auto:3", `2 of the host's 3 GPUs .*ask for fewer or less`)
	for _, b := range []*background{first, alone} {
		b.signal(syscall.SIGTERM)
		<-b.done
	}
	until(t, time.Minute, "two of them are gone", func() bool { return len(h.vms()) == 1 })
	start("both", "auto:2,memory=600M")
	if both := has("both"); len(both) != 2 || slices.Contains(both, two[0]) {
		t.Errorf("VM both has %v, want the two GPUs that aren't in %v", both, two)
	}
}

// gpusOf returns the UUIDs of a VM's GPUs, as paracuda probe lists them. nil: there is no such VM.
func (h *sharedHost) gpusOf(name string, onFake []string) []string {
	line := append(slices.Clone(onFake), paracuda, "probe", "--json", "--arbiter", h.socket)
	out, err := exec.Command(line[0], line[1:]...).Output()
	var said struct {
		CUDA struct {
			VMs []struct {
				VM   string   `json:"vm"`
				GPUs []string `json:"gpus"`
			} `json:"vms"`
		} `json:"cuda"`
	}
	if err != nil || json.NewDecoder(bytes.NewReader(out)).Decode(&said) != nil {
		return nil
	}
	for _, v := range said.CUDA.VMs {
		if v.VM == name {
			return v.GPUs
		}
	}
	return nil
}
