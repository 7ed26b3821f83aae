// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// joined has a rig count its memory in an entry of the VM's ledger.
func (r *rig) joined(t *testing.T, page *ledger.Page, entry int) {
	t.Helper()
	counts := newCounted()
	counts.host.SetLimit(1 << 40)
	file, err := unix.FcntlInt(uintptr(page.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := counts.join(entry, file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counts.device.Page().Close)
	r.host = counts.host
	r.objects.Memory, r.buffers.Host = r.host, r.host
}

// events makes events until there is no memory for more.
func (r *rig) events(t *testing.T) (n int) {
	t.Helper()
	for r.call(t, gpubackend.OpEventCreate, 0) == gpubackend.Success {
		n++
	}
	return n
}

// TestWorkersShareHostMemory: what one worker has taken, others of the same VM can't have until it
// has ended.
func TestWorkersShareHostMemory(t *testing.T) {
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	const bound, perEvent = 3 * budget.Chunk, 1 << 10
	audit := ledger.NewAudit(page, 0)
	audit.SetHostBound(bound)
	a, b := newRig(t), newRig(t)
	a.joined(t, page, 4)
	b.joined(t, page, 5)
	if b.call(t, gpubackend.OpEventCreate, 0) != gpubackend.Success {
		t.Fatal("the first event")
	}
	if n := a.events(t); n != 2*budget.Chunk/perEvent || page.HostTaken() != bound {
		t.Errorf("one has %d events, %d bytes are taken", n, page.HostTaken())
	}
	if n := b.events(t); n != budget.Chunk/perEvent-1 {
		t.Errorf("the other has %d more events", n)
	}
	audit.End(4)
	if n := b.events(t); n != 2*budget.Chunk/perEvent {
		t.Errorf("the other has %d more events when the first has ended", n)
	}
}
