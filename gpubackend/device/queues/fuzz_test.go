// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzLeave: a worker that is gone has left its notes in any state. What goes back to the driver is
// in the queue, each head at most once; nothing else of the guest's memory changes; and the queue
// works for the next driver.
func FuzzLeave(f *testing.F) {
	f.Add([]byte{}, byte(0))
	f.Add([]byte{0, 1, 0, 2, 0}, byte(2))                        // it took a head a second time
	f.Add([]byte{1, 1, 0, 255, 255}, byte(2))                    // it was giving one back
	f.Add([]byte{0, 100, 0, 1, 0, 0, 0x40, 0x9c, 1, 0}, byte(3)) // heads that the queue hasn't
	f.Add([]byte{2, 0, 0, 0xfe, 0xff}, byte(1))                  // an index that is behind
	f.Add([]byte{3, 0xff, 0xff, 0xff, 0xff}, byte(5))            // any word
	f.Add(bytes.Repeat([]byte{4, 7, 0, 3, 0}, 10), byte(8))
	f.Fuzz(func(t *testing.T, notes []byte, taken byte) {
		r := newRig(t)
		r.start(0, false)
		r.add(5)
		state, _ := r.worker(int(taken % 6))
		for ; len(notes) >= 5; notes = notes[5:] {
			head := binary.LittleEndian.Uint16(notes[1:])
			index := binary.LittleEndian.Uint16(notes[3:])
			switch notes[0] % 5 {
			case 0:
				state.Take(head, index)
			case 1:
				state.Giving(head, index)
			case 2:
				state.SetBase(index)
			case 3: // a word, wherever it is
				_, _ = unix.Pwrite(state.FD(), notes[3:5], int64(head%(1<<13)))
			case 4:
				state.Give(head)
			}
		}
		before := r.outside(r.ram())
		r.Leave(state, r.guest.Mem)
		r.within(r.Held())
		r.GiveBack(r.guest.Mem)
		if !bytes.Equal(before, r.outside(r.ram())) {
			t.Error("what isn't the used ring has changed")
		}
		r.within(r.used())
		r.again()
	})
}

// within checks that heads are the queue's, and that there are no more than it has.
func (r *rig) within(heads []uint16) {
	r.t.Helper()
	sorted := slices.Sorted(slices.Values(heads))
	if n := len(slices.Compact(sorted)); n != len(heads) || n > int(r.Size()) {
		r.t.Errorf("heads %v: some are there twice, or too many", heads)
	}
	if n := len(sorted); n > 0 && sorted[n-1] >= r.Size() {
		r.t.Errorf("heads %v of a queue of %d", heads, r.Size())
	}
}

// ram is the guest's memory.
func (r *rig) ram() []byte {
	b := make([]byte, 1<<20)
	if err := r.guest.Mem.Read(b, 0); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// usedRing is where the used ring is, with the word behind its elements.
func (r *rig) usedRing() (begin, end uint64) {
	return r.driver.Used, r.driver.Used + 4 + 8*uint64(r.Size()) + 2
}

// outside is memory without the used ring.
func (r *rig) outside(ram []byte) []byte {
	begin, end := r.usedRing()
	clear(ram[begin:end])
	return ram
}

// used are the heads that the used ring has, by its index.
func (r *rig) used() (heads []uint16) {
	begin, end := r.usedRing()
	ring := r.ram()[begin:end]
	n := binary.LittleEndian.Uint16(ring[2:])
	if n > r.Size() {
		r.t.Errorf("%d heads have gone back, of a queue of %d", n, r.Size())
		n = r.Size()
	}
	for i := range n {
		heads = append(heads, uint16(binary.LittleEndian.Uint32(ring[4+8*i:])))
	}
	return heads
}

// again has a new driver use the queue.
func (r *rig) again() {
	r.t.Helper()
	next := newRig(r.t)
	r.Stop()
	r.Forget()
	next.Queue = r.Queue
	next.start(0, false)
	heads := next.add(3)
	state, _ := next.worker(1)
	next.Leave(state, next.guest.Mem)
	next.GiveBack(next.guest.Mem)
	if got := next.reaped(); !slices.Equal(got, heads) {
		r.t.Errorf("the next driver: %v came back of %v", got, heads)
	}
}
