// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// usesBoth runs the test programs for two GPUs on each device that appears. Then it runs lostgpu,
// which computes on both GPUs until the device is taken out, and says how that ended.
const usesBoth = `
number() { stat -c %i /dev/paracuda 2>/dev/null; }
echo up
while :; do
	until now=$(number); do sleep 0.2; done
	for p in peers peergangs peerprocesses; do
		"$0/$p" >/tmp/said 2>&1; code=$?
		cmp -s /tmp/said "$0/../../tests/programs/want/$p.out" || code="$code, and prints:
$(cat /tmp/said)"
		echo "$p $code"
	done
	mkfifo /tmp/line
	"$0/lostgpu" 0 >/tmp/line 2>&1 & both=$!
	{ read -r line; echo "$line"; cat >/tmp/rest; } </tmp/line
	rm /tmp/line
	wait $both && echo "it ended well" || echo "it lost its GPUs"
	while [ "$(number)" = "$now" ]; do sleep 0.2; done
	echo gone
done`

// TestHotPlugSeveralGPUs plugs two GPUs into a running VM, takes them out while a program computes
// on both, and does so again. The GPUs are chosen by number, then by the size of their memory.
func TestHotPlugSeveralGPUs(t *testing.T) {
	needsQEMU(t)
	h := newSharedHost(t)
	folder, err := filepath.Abs(programs)
	if err != nil {
		t.Fatal(err)
	}
	qmp, lines := runningVM(t, usesBoth, folder, 0)
	expectLine(t, lines, "up")
	for i, gpus := range []string{"soft:2", "auto:2,memory=512M"} {
		socket, name := filepath.Join(t.TempDir(), "gpu"), fmt.Sprint("plugged-", i)
		device := serve(t, socket, "--gpu", gpus, "--arbiter", h.socket, "--name", name)
		r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device", socket)
		if r.exit != 0 {
			log, _ := os.ReadFile(device.log)
			t.Fatalf("attach: %s%s", r.stderr, tail(string(log)))
		}
		for _, p := range []string{"peers", "peergangs", "peerprocesses"} {
			expectLine(t, lines, p+" 0")
		}
		expectLine(t, lines, "both compute")
		until(t, time.Minute, "the arbiter has figures of VM "+name, func() bool {
			return h.vms()[name].Figures.Counters["launches"] > 0
		})
		said := command(t, time.Minute, root, paracuda, "probe", "--arbiter", h.socket).stdout
		told := regexp.MustCompile("VM " + name + `: has \d+ MiB, \d+ MiB of its 2 GPUs together`)
		if !told.MatchString(said) {
			t.Errorf("probe doesn't tell of VM %s:\n%s", name, said)
		}
		if r := command(t, 2*time.Minute, root, paracuda, "detach", "--qmp", qmp); r.exit != 0 {
			t.Fatalf("detach: %s", r.stderr)
		}
		expectLine(t, lines, "it lost its GPUs")
		expectLine(t, lines, "gone")
		device.kill()
	}
}
