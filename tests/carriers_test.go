// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/frontend"
)

// qemus are the releases of QEMU that are tested, as scripts/fetch-qemu names them.
var qemus = []string{"7.2", "10.0", "11"}

// qemuProgram is the program of a release of QEMU in the cache.
func qemuProgram(t *testing.T, version string) string {
	t.Helper()
	program := cached("qemu-" + version + "/qemu-system-x86_64")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run scripts/fetch-qemu %s", err, version)
	}
	return program
}

func needsQEMU(t *testing.T) {
	t.Helper()
	boots(t)
	wantsQEMU(t)
}

// needsReleases is for tests whose parts run at the same time: each part says when it is over.
func needsReleases(t *testing.T) {
	t.Helper()
	notShort(t)
	t.Parallel()
	wantsQEMU(t)
}

func wantsQEMU(t *testing.T) {
	t.Helper()
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out")
	}
}

// TestCarriers runs a program behind each carrier, and in each release of QEMU.
func TestCarriers(t *testing.T) {
	needsQEMU(t)
	for _, tt := range []struct{ version, carrier string }{{"7.2", "fs"}, {"10.0", "fs"},
		{"11", "generic"}} {
		t.Run(tt.version+"-"+tt.carrier, func(t *testing.T) {
			r := execute(t, within(4*time.Minute), root, "env",
				"PARACUDA_QEMU="+qemuProgram(t, tt.version), paracuda, "run",
				"--gpu", "soft", "--carrier", tt.carrier, "--report", "--",
				filepath.Join(programs, follower))
			if r.exit != 0 || !strings.Contains(r.stderr, "ran in QEMU "+tt.version) {
				t.Errorf("exit code %d, want 0 and \"ran in QEMU %s\":%s%s", r.exit, tt.version,
					tail(r.stdout), tail(r.stderr))
			}
		})
	}
}

// mismatch is a QEMU with a number of queues, and what the device says about it ("": nothing).
type mismatch struct{ name, carrier, want, fix string }

// TestQueuesThatDisagree starts each QEMU with a number of queues that isn't the device's: a line
// in the device's log names the option. No guest boots: QEMU sets up its queues before that.
func TestQueuesThatDisagree(t *testing.T) {
	needsReleases(t)
	const carrier, fix = "vhost-user-fs-pci,tag=paracuda", "give the device num-request-queues=16 "
	inEachRelease(t, qemus, func(t *testing.T, version string) {
		disagree(t, version, []mismatch{
			{"left-out", carrier, "fewer queues than the device, which leaves 1 of 16", fix},
			{"too-few", carrier + ",num-request-queues=3",
				"fewer queues than the device, which leaves 3 of 16", fix},
			{"too-many", carrier + ",num-request-queues=20", "more queues than the device", fix},
			{"as-many", carrier + ",num-request-queues=16", "", ""},
		})
	})
}

// TestGenericQueuesThatDisagree is the same for the generic device, which has another option.
func TestGenericQueuesThatDisagree(t *testing.T) {
	needsQEMU(t)
	const carrier = "vhost-user-test-device-pci,virtio-id=37,vq_size=256"
	disagree(t, "11", []mismatch{
		{"too-few", carrier + ",config_size=256,num_vqs=5",
			"fewer queues than the device, which leaves 4 of 16", "give the device num_vqs=17,"},
		{"too-many", carrier + ",config_size=256,num_vqs=20", "more queues than the device",
			"give the device num_vqs=17,"},
		{"no-config-size", carrier + ",num_vqs=5", "fewer queues than the device",
			"config_size=256"},
	})
}

// disagree starts them all at once, since each device waits a while for its queues.
func disagree(t *testing.T, version string, all []mismatch) {
	t.Helper()
	devices := make([]*served, len(all))
	for i, m := range all {
		devices[i] = connect(t, version, m.name, m.carrier)
	}
	over := time.Now().Add(frontend.DefaultTimes.Settle + 3*time.Second)
	for i, m := range all {
		if m.want != "" {
			devices[i].expect(t, m.want, m.fix)
		}
	}
	for i, m := range all {
		if m.want == "" {
			time.Sleep(time.Until(over))
			if log := devices[i].said(t); strings.Contains(log, "num-request-queues") {
				t.Errorf("%s: the device names an option, want no word of it:\n%s", m.name, log)
			}
		}
	}
}

// connect starts a device and a QEMU that has it behind a carrier, and boots nothing.
func connect(t *testing.T, version, name, carrier string) *served {
	t.Helper()
	socket := filepath.Join(t.TempDir(), name)
	served := serve(t, socket)
	startQEMU(t, qemuProgram(t, version), "-nodefaults", "-display", "none", "-S",
		"-accel", "tcg", "-machine", "q35,memory-backend=m", "-m", "64M",
		"-object", "memory-backend-memfd,id=m,size=64M,share=on",
		"-chardev", "socket,id=gpu,path="+socket, "-device", carrier+",chardev=gpu")
	return served
}

// expect waits for a line of the device's log that has all these words.
func (d *served) expect(t *testing.T, words ...string) {
	t.Helper()
	for w := patienceOf(time.Minute); !w.over(); {
		for line := range strings.Lines(d.said(t)) {
			lacks := func(word string) bool { return !strings.Contains(line, word) }
			if !slices.ContainsFunc(words, lacks) {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("the device doesn't say %q:\n%s", words, d.said(t))
}

// said is the device's log.
func (d *served) said(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// startQEMU starts a QEMU that ends with the test.
func startQEMU(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
}
