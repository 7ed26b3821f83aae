// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzPage: processes write anything to a page, between what others and the device process do. No
// process is ended for which the driver has no memory, nor any while the VM has no more than it may
// have; the bounds are put right at each look; and once all processes have ended nothing of theirs
// is left.
func FuzzPage(f *testing.F) {
	f.Add([]byte{}, uint64(contexts))
	f.Add(word3(0, boundAt, 0), uint64(5000))
	f.Add(word3(1, sectionsAt+takenAt, 1<<63), uint64(1000))
	f.Add(word3(2, sectionsAt+lineBytes+kindsAt, 1<<64-1), uint64(1101))
	f.Add(slices.Concat(word3(3, sectionsAt+lineBytes+peakAt, 1<<64-1), word3(4, 0, 9),
		word3(5, sectionsAt+lineBytes+otherAt, 1<<64-1)), uint64(2000))
	f.Add(slices.Concat(word3(6, hostTakenAt, 1<<64-1), word3(7, hostHeldAt, 77)), uint64(1<<40))
	f.Fuzz(func(t *testing.T, writes []byte, used uint64) {
		x := newAudited(t)
		x.SetHostBound(4000)
		x.driver[10] = used % (1 << 48)
		if len(writes) > 64*wordBytes {
			return // each is looked at, which takes time
		}
		for ; len(writes) >= wordBytes; writes = writes[wordBytes:] {
			le := binary.LittleEndian
			at, n := int(le.Uint32(writes[1:]))%(pageBytes/8)*8, le.Uint64(writes[5:])
			wordAt(x.page.mem, at).Store(n)
			x.act(writes[0], n)
			x.checked(t, x.look())
		}
		x.checked(t, x.looks())
		for entry := range Entries {
			x.End(entry)
		}
		x.running = nil
		if x.looks(); x.gpu.ID() == testGPU && x.gpu.Taken() != 0 || x.page.HostTaken() != 0 {
			t.Errorf("%d are taken, and %d of the host's, and nobody is there", x.gpu.Taken(),
				x.page.HostTaken())
		}
	})
}

// wordBytes is the size of what word3 makes: what is done, a word's place, and its value.
const wordBytes = 13

func word3(act byte, at uint32, n uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{act}, at/8)
	return binary.LittleEndian.AppendUint64(b, n)
}

// act has a process or the device process do something.
func (x *audited) act(what byte, n uint64) {
	k := Kind(n % uint64(Kinds))
	switch what % 8 {
	case 0:
		x.a.Take(k, n%2000)
	case 1:
		x.b.Give(k, n)
	case 2:
		x.b.Set(k, n%1000)
	case 3:
		x.a.Move(k, Window, n)
	case 4:
		x.Empty(2 + int(n%(Entries-2)))
	case 5:
		x.page.Holder(n, int(n%Workers))
		x.page.Busy()
	case 6:
		new(HostAccount).Join(x.page, int(n%Entries))
	case 7:
		for _, g := range x.Known() {
			h := g.Holding(int(n % Entries))
			h.Map()
		}
	}
}

// checked checks whom a look would end, and what the page says of bounds afterwards.
func (x *audited) checked(t *testing.T, end []Running) {
	t.Helper()
	for _, r := range end {
		if !slices.Contains(x.running, r) || x.driver[r.PID] == 0 {
			t.Errorf("%+v is to end, which has nothing", r)
		}
	}
	if all := x.driver[10] + x.driver[11]; len(end) > 0 && all <= 1000+tolerance {
		t.Errorf("%v are to end, and the VM has %d of 1000", end, all)
	}
	if x.page.Bound() != 1000 || x.page.HostBound() != 4000 {
		t.Errorf("the bounds are %d and %d", x.page.Bound(), x.page.HostBound())
	}
}
