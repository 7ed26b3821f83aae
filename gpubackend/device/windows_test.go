// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paracuda/paracuda/internal/patience"
)

// What VMs have of a GPU is measured in windows, on a machine that may do other things as well.

// settle waits until VMs have had some turns each.
func (h *host) settle(names ...string) {
	h.Helper()
	turns := func(name string) uint64 {
		for _, v := range h.arbiter.VMs() {
			if v.Name == name {
				return v.Turns
			}
		}
		return 0
	}
	for _, name := range names {
		mustCome(h.T, name+" has no turns", func() bool { return turns(name) >= 3 })
	}
}

// tries is how many windows a figure may take to become what it should be. Windows in which the
// machine was busy with something else don't count, but all of them together may take no longer
// than longest.
const (
	tries   = 8
	longest = 4 * soon
)

// errOwes: a VM had no turn in all of a window. A busy machine had kept its worker from ending an
// earlier turn in time, and its time-limit makes the VM wait for that.
var errOwes = errors.New("no turn in all of the window")

// inSomeWindow measures, window by window, until the figure is right. The tenants in launch have
// work in each window.
func inSomeWindow(t *testing.T, measure func() error, launch ...*tenant) {
	t.Helper()
	for tried, wait := 0, patience.Of(longest); ; {
		for _, x := range launch {
			x.refill()
		}
		begin, before := time.Now(), kept(launch)
		err := measure()
		if err == nil {
			return
		}
		part := (kept(launch) - before).Seconds() / time.Since(begin).Seconds()
		if t.Logf("%v; threads were kept from processors for %.3f of the time", err,
			part); part < disturbed && !errors.Is(err, errOwes) {
			tried++
		}
		if tried == tries || wait.Over() {
			t.Error(err)
			return
		}
	}
}

// disturbed is for how much of a window threads of workers, and of this process, which has the
// arbiter, may have been ready to run without a processor. Beyond that a window says nothing about
// turns: a worker that is late in its turn loses it, and a late arbiter makes one longer.
const disturbed = 0.01

// kept is for how long threads of VMs' workers, and of this process, were ready to run and had no
// processor. It is 0 where the kernel doesn't count that.
func kept(tenants []*tenant) (sum time.Duration) {
	sum = keptFrom(os.Getpid())
	for _, x := range tenants {
		for _, p := range x.programs {
			w := x.worker(p.channel)
			if w == nil {
				continue
			}
			pid, ok := w.PID()
			if !ok {
				continue
			}
			sum += keptFrom(pid)
		}
	}
	return sum
}

// keptFrom is for how long a process' threads were ready to run and had no processor.
func keptFrom(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		var ran, waited, slices int64
		text, _ := os.ReadFile(file)
		if _, err := fmt.Sscan(string(text), &ran, &waited, &slices); err == nil {
			sum += time.Duration(waited)
		}
	}
	return sum
}
