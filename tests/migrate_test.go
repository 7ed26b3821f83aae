// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// migrators are the releases of QEMU that migrate a back end's state.
var migrators = []string{"10.0", "11"}

// TestMigration migrates a VM without programs to another device process, to a file and out of it,
// and loads a snapshot: programs that start then use the GPU. While a program has what can't be
// migrated the migration fails, and the VM goes on.
func TestMigration(t *testing.T) {
	needsReleases(t)
	image := gpuRoot(t)
	inReleases(t, migrators, "10.0", func(t *testing.T, version string) {
		migrates(t, version, image)
	})
}

func migrates(t *testing.T, version, image string) {
	program, dir := qemuProgram(t, version), t.TempDir()
	start := func(name string, more ...string) (*staying, *served) {
		socket := filepath.Join(dir, name+"-"+version)
		device := serve(t, socket)
		return startMachine(t, program, socket, name, image, more...), device
	}
	first, device := start("first")
	first.expect("guest: device", 1)
	first.usesGPU()

	first.tell("hold")
	first.expect("holding", 1)
	if status := first.migrate("exec:cat >/dev/null"); status != "failed" {
		t.Errorf("a VM whose program can't be migrated: migration %s, want failed", status)
	}
	device.expect(t, "the VM can't be saved or migrated now", "call (pid ", "linkers")
	first.lives()
	first.tell("end")
	first.expect("guest: holder ended", 1)

	line := "unix:" + filepath.Join(dir, "line")
	second, _ := start("second", "-incoming", line)
	second.answers()
	if status := first.migrate(line); status != "completed" {
		t.Fatalf("an idle VM: migration %s, want completed", status)
	}
	first.kill() // for its memory
	second.runs()
	second.usesGPU()

	file := filepath.Join(dir, "file")
	if status := second.migrate("exec:cat >" + file); status != "completed" {
		t.Fatalf("to a file: migration %s, want completed", status)
	}
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	second.kill()
	third, _ := start("third", "-incoming", "exec:cat "+file,
		"-drive", "if=none,format=raw,snapshot=on,file="+disk)
	third.runs()
	third.usesGPU()
	third.monitor("savevm here")
	third.tell("hold")
	third.expect("holding", 1)
	third.monitor("loadvm here")
	third.lives()
	third.usesGPUAgain(2)
}

// TestNoMigration: QEMUs and carriers that don't migrate a back end's state say so.
func TestNoMigration(t *testing.T) {
	needsReleases(t)
	for _, tt := range []struct{ version, device string }{
		{"7.2", "vhost-user-fs-pci,chardev=gpu,tag=paracuda,num-request-queues=16"},
		{"11", "vhost-user-test-device-pci,chardev=gpu,virtio-id=37,num_vqs=17,config_size=12"},
	} {
		t.Run(tt.version, func(t *testing.T) {
			t.Parallel()
			progress(t)
			dir := t.TempDir()
			serve(t, filepath.Join(dir, "device"))
			g := &staying{t: t, socket: filepath.Join(dir, "qmp")}
			startQEMU(t, qemuProgram(t, tt.version), "-nodefaults", "-display", "none", "-S",
				"-accel", "tcg", "-machine", "q35,memory-backend=m", "-m", "64M",
				"-object", "memory-backend-memfd,id=m,size=64M,share=on",
				"-chardev", "socket,id=gpu,path="+filepath.Join(dir, "device"),
				"-device", tt.device, "-qmp", "unix:"+g.socket+",server=on,wait=off")
			g.answers()
			answer := g.qmpWith("migrate", "uri", "exec:cat >/dev/null")
			if !strings.Contains(answer, "State blocked by non-migratable device") {
				t.Errorf("migrate: %s, want an error that the device is non-migratable", answer)
			}
		})
	}
}

// monitor gives QEMU a command of its human monitor. The answer must be empty: then all is well.
func (g *staying) monitor(line string) {
	g.t.Helper()
	answer := g.qmpWith("human-monitor-command", "command-line", line)
	if strings.TrimSpace(answer) != `{"return": ""}` {
		g.t.Errorf("%s: %s, want an empty answer", line, answer)
	}
}

// gpuRoot makes an initramfs with programs and what they need.
func gpuRoot(t *testing.T) string { return gpuRootWith(t, "") }

// gpuRootWith is the same, with parameters for the guest's driver.
func gpuRootWith(t *testing.T, parameters string) string {
	t.Helper()
	image, call := stayingRoot(t, parameters), build(t, "tests/guests/call.c", "-ldl")
	script := `set -e; d=$(mktemp -d); mkdir $d/gpu
		cp "$1" $d/gpu/program; cp "$2" $d/gpu/call; cp -L "$3"/libcuda.so.1 $d/gpu/
		ldd "$1" "$2" "$3"/libcuda.so.1 | sed -n 's,.*\s\(/[^ ]*\) (0x.*,\1,p' | sort -u |
			xargs -I{} cp --parents -L {} $d/
		cd $d; find . | cpio -o -H newc --quiet >>"$4"; rm -r $d`
	r := command(t, time.Minute, root, "sh", "-c", script, "sh", filepath.Join(programs, follower),
		call, filepath.Join(root, "build/guest/lib"), image)
	if r.exit != 0 {
		t.Fatalf("add programs to an initramfs: %s", r.stderr)
	}
	return image
}

// ended is what the guest prints when a program has ended with 0.
const ended = "guest: program ended 0\r\n"

// usesGPU runs the first program in the VM. It checks what it computes.
func (g *staying) usesGPU() {
	g.t.Helper()
	g.usesGPUAgain(1)
}

// usesGPUAgain is the same for the VM's nth program.
func (g *staying) usesGPUAgain(nth int) {
	g.t.Helper()
	g.tell("program")
	g.expect(ended, nth)
}

// migrate migrates the VM, and returns how that ended.
func (g *staying) migrate(uri string) string {
	g.t.Helper()
	if answer := g.qmpWith("migrate", "uri", uri); !strings.Contains(answer, `"return"`) {
		g.t.Errorf("migrate: %s", answer)
		return "refused"
	}
	for w := patienceOf(2 * time.Minute); !w.over(); {
		answer := g.qmp("query-migrate")
		for _, status := range []string{"completed", "failed"} {
			if strings.Contains(answer, `"status": "`+status+`"`) {
				return status
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "without end: " + g.qmp("query-migrate")
}

// answers waits until QEMU answers QMP.
func (g *staying) answers() {
	g.t.Helper()
	for w := patienceOf(time.Minute); !w.over(); {
		if _, err := os.Stat(g.socket); err == nil {
			g.qmp("query-status") // QEMU answers when all of its devices are there
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	g.t.Fatalf("QEMU made no QMP socket %s", g.socket)
}

// runs waits until a VM that is migrated here runs.
func (g *staying) runs() {
	g.t.Helper()
	g.answers()
	for w := patienceOf(time.Minute); !w.over(); {
		if strings.Contains(g.qmp("query-status"), `"running": true`) {
			return
		}
		if len(g.gone) > 0 {
			g.t.Fatalf("QEMU has ended: %v", <-g.gone)
		}
		time.Sleep(100 * time.Millisecond)
	}
	g.t.Fatalf("the VM doesn't run: %s", g.qmp("query-status"))
}
