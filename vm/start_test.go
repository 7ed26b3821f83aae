// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
)

func TestUMLArgs(t *testing.T) {
	m := &Machine{Memory: 512 << 20, CPUs: 3, FileSystems: []string{"/a b/other"}}
	got := umlArgs(m, &Device{Socket: "/a b/sock", VirtioID: 63}, "/tmp/d")
	for _, want := range []string{"mem=512M", "ncpus=3", "seccomp=on", "rootfstype=hostfs", "ro",
		"ssl0=fd:3", "init=/tmp/d/init", "virtio_uml.device=/tmp/d/device:63",
		"virtio_uml.device=/tmp/d/fs0:26", "quiet"} {
		if !slices.Contains(got, want) {
			t.Errorf("the command line %q lacks %s", got, want)
		}
	}
	if last := got[len(got)-2:]; last[0] != "--" || last[1] != "link=/dev/ttyS0" {
		t.Errorf("init's arguments are %q", last)
	}
	for _, arg := range umlArgs(&Machine{Verbose: true}, &Device{}, "/d") {
		if arg == "quiet" || strings.HasPrefix(arg, "virtio_uml") {
			t.Errorf("the command line has %s", arg)
		}
	}
}

func TestMemoryDirHasRoom(t *testing.T) {
	if got := memoryDir(1<<60, "/d"); got != "/d" {
		t.Errorf("an exabyte fits in %s", got)
	}
	if got := memoryDir(0, "/d"); got != "/dev/shm" {
		t.Logf("this host has no shared memory: %s", got)
	}
}

func TestShortenLeadsToTheFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a b/file"), "x")
	if err := shorten(dir, "short", filepath.Join(dir, "a b/file")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "short")); string(text) != "x" || err != nil {
		t.Errorf("it leads to %q, %v", text, err)
	}
}

func TestQEMUMachine(t *testing.T) {
	cache, build, dir := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Rename(fakeKernel(t), filepath.Join(cache, "linux-6.1")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(build, "guest/init"), "init")
	c := Config{Assets: Assets{Cache: cache, Build: build},
		Machine: Machine{Kernel: "6.1", Accel: TCG, Memory: 1 << 30, CPUs: 2, QMPSocket: "/q"},
		Device: Device{Socket: "/d", Carrier: qemu.Generic, VirtioID: 37, Queues: 5,
			ConfigSize: 64}}
	m, err := qemuMachine(&c, dir)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(m.Args(), " ")
	for _, want := range []string{"virtio-id=37,num_vqs=5,vq_size=256,config_size=64", "unix:/q,",
		"-- link=/dev/vport0p1 files=host", "-initrd " + dir, cache + "/linux-6.1/vmlinuz"} {
		if !strings.Contains(line, want) {
			t.Errorf("the command line lacks %q: %s", want, line)
		}
	}
}

func TestMissingPartsNameTheMend(t *testing.T) {
	a := Assets{Cache: "/nowhere", Build: "/nowhere"}
	t.Setenv("PARACUDA_QEMU", "")
	t.Setenv("PATH", "/nowhere")
	for want, find := range map[string]func() (string, error){
		"guest/init: run make build": a.Init,
		"uml-7.2: run make deps": func() (string, error) {
			return a.UML("7.2")
		},
		"uml-7.2-debug: run make debug-kernel": func() (string, error) {
			return a.UML("7.2-debug")
		},
		"virtiofsd: run make deps":         a.Virtiofsd,
		"qemu-system-x86_64: install QEMU": a.QEMU,
		"linux-6.12: run make deps": func() (string, error) {
			return a.KernelDir(QEMU, "6.12")
		},
		"find the guest kernel: find guest kernel 7.2: there is no": func() (string, error) {
			return a.Release(UML, "")
		},
		"linux-6.1: run": func() (string, error) {
			return a.Release(QEMU, "")
		},
		"linux-6.5: the guest kernels are 6.1, 6.12": func() (string, error) {
			return a.KernelDir(QEMU, "6.5")
		},
		"find the guest kernel: find guest kernel 6.5": func() (string, error) {
			return a.Release(QEMU, "6.5")
		},
	} {
		if _, err := find(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %q", err, want)
		}
	}
}

// TestWhichQEMU puts QEMUs where they are looked for, the last choice first.
func TestWhichQEMU(t *testing.T) {
	a, own := Assets{Cache: t.TempDir()}, t.TempDir()
	t.Setenv("PATH", own)
	t.Setenv("PARACUDA_QEMU", "")
	named := filepath.Join(t.TempDir(), "named")
	for _, file := range []string{filepath.Join(own, "qemu-system-x86_64"),
		filepath.Join(a.Cache, "qemu-11/qemu-system-x86_64"), named} {
		program(t, file, "")
		if file == named {
			t.Setenv("PARACUDA_QEMU", named)
		}
		if found, err := a.QEMU(); found != file || err != nil {
			t.Errorf("found %s, %v, not %s", found, err, file)
		}
	}
}

func TestDriverOfAKernel(t *testing.T) {
	a := Assets{Cache: t.TempDir(), Build: t.TempDir()}
	write(t, filepath.Join(a.Cache, "linux-6.1/release"), "6.1.0-9\n")
	if _, err := a.Driver(QEMU, ""); err == nil ||
		!strings.Contains(err.Error(), "run make build") {
		t.Errorf("no driver: %v", err)
	}
	file := filepath.Join(a.Build, "modules/6.1.0-9/paracuda.ko")
	write(t, file, "")
	if m, err := a.Driver(QEMU, ""); err != nil || m.File != file {
		t.Errorf("the driver is %+v, %v", m, err)
	}
}

// TestInstalledAlone has no source tree near it: the fix must be one that can be followed there.
func TestInstalledAlone(t *testing.T) {
	t.Setenv("PARACUDA_BUILD", "")
	t.Setenv("PARACUDA_CACHE", t.TempDir())
	other := t.TempDir() // a program's own tree, which is none of ours
	write(t, filepath.Join(other, "go.mod"), "module other\n")
	t.Chdir(other)
	a := FindAssets()
	_, driver := a.Driver(UML, "")
	_, guestInit := a.Init()
	for _, err := range []error{driver, guestInit} {
		if err == nil || !strings.Contains(err.Error(),
			"run make deps build in a source tree, and set PARACUDA_BUILD") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestFindAssetsFromTheEnvironment(t *testing.T) {
	t.Setenv("PARACUDA_CACHE", "/c")
	t.Setenv("PARACUDA_BUILD", "/b")
	if got := FindAssets(); got != (Assets{Cache: "/c", Build: "/b"}) {
		t.Errorf("the assets are %+v", got)
	}
}

func TestFindAssetsAboveTheCurrentDirectory(t *testing.T) {
	t.Setenv("PARACUDA_BUILD", "")
	want, err := filepath.Abs("../build")
	if err != nil {
		t.Fatal(err)
	}
	if got := FindAssets().Build; got != want {
		t.Errorf("the build is in %s, not %s", got, want)
	}
}

func TestTailKeepsTheLastLines(t *testing.T) {
	var all bytes.Buffer
	log := tail{next: &all}
	for range 3000 {
		log.Write([]byte("line of text\r\n"))
	}
	log.Write([]byte("the end\n"))
	got := log.last()
	if lines := strings.Split(got, "\n\t"); len(lines) != tailLines+1 ||
		lines[tailLines] != "the end" {
		t.Errorf("the last lines are %q", got)
	}
	if all.Len() != 3000*14+8 || len(log.text) > tailBytes {
		t.Errorf("%d bytes passed, %d kept", all.Len(), len(log.text))
	}
}

func TestProcessEnds(t *testing.T) {
	p, err := startProcess(exec.Command("sh", "-c", "echo hello; exec sleep 1000"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.log.last(), "hello") {
		time.Sleep(time.Millisecond)
	}
	p.end(time.Millisecond)
	if p.err == nil {
		t.Error("it ended by itself")
	}
	if _, err := startProcess(exec.Command("/nowhere/program"), nil); err == nil {
		t.Error("a program that is not there was started")
	}
}
