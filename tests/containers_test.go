// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var guestCDI = filepath.Join(root, "build/guest/bin/paracuda-cdi")

// TestCDI has paracuda-cdi write a file in a VM with two GPUs. The library that container engines
// use must read it.
func TestCDI(t *testing.T) {
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out, and one front end is enough here")
	}
	boots(t)
	vm := frontEnds[0]
	r := vm.run(t, vm.limit, "--set", "channels=4", "--gpu", "soft:2", "--", guestCDI)
	if r.exit != 0 || r.stdout == "" {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	file := filepath.Join(t.TempDir(), "paracuda.json")
	if err := os.WriteFile(file, []byte(r.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	r = command(t, 5*time.Minute, root, "go", "-C", "tests/cdi", "run", ".", file)
	want := "paracuda.dev/gpu=0\nparacuda.dev/gpu=1\nparacuda.dev/gpu=all\n"
	if r.exit != 0 || r.stdout != want {
		t.Errorf("exit code %d, %q, want %q:%s", r.exit, r.stdout, want, tail(r.stderr))
	}
}

// TestCDIWithoutGPU: without a GPU the engines' file stays as it is, and one line says why.
func TestCDIWithoutGPU(t *testing.T) {
	if _, err := os.Stat(guestCDI); err != nil {
		skip(t, "run make guest first: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "paracuda.json")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(root, "build/guest/lib")
	compile(t, dir, "libcuda.so.1", "int cuGetExportTable() { return 500; }")
	compile(t, dir, "libnvidia-ml.so.1", "int nvmlInit_v2() { return 0; }")
	for name, tt := range map[string]struct {
		libraries, want string
		args            []string
		exit            int
	}{
		"no GPU":           {ours, "no GPU (CUDA error 100, 0 GPUs): see paracuda-doctor", nil, 1},
		"another's":        {dir, "isn't Paracuda's: see paracuda-doctor library", nil, 1},
		"bad option":       {ours, "see paracuda-cdi --help", []string{"--fly"}, 2},
		"too many":         {ours, "see paracuda-cdi --help", []string{"more"}, 2},
		"no such function": {"/nowhere", "no libcuda.so.1: see paracuda-doctor library", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, time.Minute, root, append([]string{"env",
				"LD_LIBRARY_PATH=" + tt.libraries, guestCDI, file}, tt.args...)...)
			if r.exit != tt.exit || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
				!strings.Contains(r.stderr, tt.want) {
				t.Errorf("exit code %d, output %q, %q, want %d, none, one line with %q", r.exit,
					r.stdout, r.stderr, tt.exit, tt.want)
			}
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("the file has %q, %v, want the old text", text, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("the folder has %v, want the file and the two libraries only", files)
	}
}

// podmanConfig makes podman keep its files in memory: the VM's file system is read-only.
const podmanConfig = `
mount -t tmpfs etc /mnt && mkdir /mnt/up /mnt/work
mount -t overlay etc -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work /etc
mount -t tmpfs run /run && mount -t tmpfs cache /var/cache && mount -t cgroup2 c /sys/fs/cgroup
cat >/tmp/storage.conf <<-'END'
	[storage]
	driver = "vfs"
	graphroot = "/tmp/images"
	runroot = "/run/images"
END
cat >/tmp/containers.conf <<-'END'
	[containers]
	netns = "none"
	[engine]
	cgroup_manager = "cgroupfs"
	events_logger = "file"
	tmp_dir = "/run/podman"
END
export CONTAINERS_STORAGE_CONF=/tmp/storage.conf CONTAINERS_CONF=/tmp/containers.conf TMPDIR=/tmp
export HOME=/tmp PATH="$1/build/guest/bin:$PATH"
unset LD_LIBRARY_PATH
cp "$2" /tmp/vectoradd && cd /tmp
`

// TestContainers runs the shell blocks of docs/containers.md in a VM, with podman. Then it tries
// what must fail: a GPU that isn't there, and a container without a GPU.
func TestContainers(t *testing.T) {
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, and containers need a kernel with all namespaces")
	}
	if _, err := exec.LookPath("podman"); err != nil {
		skip(t, "no podman here: apt-get install podman")
	}
	boots(t)
	try := codeBlock(t, "docs/containers.md", "mkdir image")
	write := codeBlock(t, "docs/containers.md", "paracuda-cdi /etc/cdi")
	again := "podman run --rm --device paracuda.dev/gpu="
	// Docker's daemon doesn't run in such a VM; its options are podman's.
	short, _, _ := strings.Cut(codeBlock(t, "docs/containers.md", "podman run --rm --device"), "\n")
	short = strings.Replace(short, "IMAGE PROGRAM", "vectoradd /vectoradd", 1)
	hand := strings.NewReplacer("docker run", "podman run", "...", "vectoradd /vectoradd",
		"lib=/usr/lib/x86_64-linux-gnu", "lib=\"$1/build/guest/lib\"", ":$lib/",
		":/usr/lib/x86_64-linux-gnu/").Replace(codeBlock(t, "docs/containers.md", "lib=/usr/lib"))
	script := "set -e" + podmanConfig + write + try + short + "\n" + hand + "set +e\n" +
		again + "7 vectoradd /vectoradd; echo \"code $?\"\n" +
		"podman run --rm vectoradd /vectoradd; echo \"code $?\"\n" +
		"paracuda-doctor containers; echo \"code $?\"\n"
	vm := frontEnds[1]
	r := vm.run(t, 10*vm.limit, "--gpu", "soft:2", "--", "sh", "-c", script, "sh", root,
		filepath.Join(programs, "vectoradd"))
	sums := wellFormed(t).stdout
	for _, want := range []string{strings.Repeat(sums, 3) + "code 126\ncode 1\n",
		"/etc/cdi/paracuda.json names the GPUs"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the output lacks %q:%s", want, tail(r.stdout))
		}
	}
	for _, want := range []string{"unresolvable CDI devices paracuda.dev/gpu=7",
		"cudaErrorInsufficientDriver"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("standard error lacks %q:%s", want, tail(r.stderr))
		}
	}
}
