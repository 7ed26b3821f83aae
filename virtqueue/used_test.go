// SPDX-License-Identifier: Apache-2.0

package virtqueue_test

import (
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/virtqueue"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestUsedRingIsNotBelieved: what a driver writes to the used ring, and to where it wishes for
// interrupts, changes nothing of what is taken and returned.
func TestUsedRingIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, nil)
	used := make([]byte, virtqueue.UsedBytes(r.drv.Size, true))
	random := rand.New(rand.NewPCG(2, 0))
	for i := range uint16(300) {
		head, err := r.drv.Add(vt.Desc{Addr: 0x20000, Len: 16},
			vt.Desc{Addr: 0x30000, Len: 16, Flags: vt.Write})
		if err != nil {
			t.Fatal(err)
		}
		for n := range used {
			used[n] = byte(random.Uint32())
		}
		r.Write(r.drv.Used, used)
		r.drv.SetUsedEvent(uint16(random.Uint32()))
		c := mustPop(t, r.q)
		if c.Head() != head {
			t.Fatalf("head %d, want %d", c.Head(), head)
		}
		if err := r.q.Push(head, 16); err != nil {
			t.Fatal(err)
		}
		r.q.NeedsNotify()
		if _, err := r.q.EnableKick(); err != nil {
			t.Fatal(err)
		}
		if got := r.drv.UsedIdx(); got != i+1 {
			t.Fatalf("the used index is %d, want %d", got, i+1)
		}
		if id, n, ok := r.drv.Reap(); id != uint32(head) || n != 16 || !ok {
			t.Fatalf("%d, %d, %t", id, n, ok)
		}
	}
}
