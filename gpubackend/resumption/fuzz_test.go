// SPDX-License-Identifier: Apache-2.0

package resumption

import (
	"errors"
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
)

// FuzzKept: a state is read if the keeper has the descriptors that it names, and then owns those
// and no others. Else it is refused with the reason, and the keeper still has them.
func FuzzKept(f *testing.F) {
	head := func(numbers ...uint32) []byte {
		b := little.AppendUint32(little.AppendUint32(nil, version), uint32(len(numbers)))
		for _, n := range numbers {
			b = little.AppendUint32(b, n)
		}
		return b
	}
	small := (&vhostuser.Snapshot{Rings: make([]vhostuser.RingSnapshot, 1)}).AppendTo(nil)
	f.Add(append(head(0, 0, 0, 0, 0, 0, 0), small...))
	ring := append([]byte{}, small...)
	ring[len(ring)-12] = 16 | 32 // it has a kick and a call descriptor
	f.Add(append(head(firstNumber, firstNumber+1, 0, 0, 0, 0, 0), ring...))
	f.Add(append(head(firstNumber, firstNumber, 0, 0, 0, 0, 0), ring...))
	f.Add(append(head(firstNumber, 77, 0, 0, 0, 0, 0), ring...))
	f.Add(head(firstNumber))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, state []byte) {
		held := map[uint32]int{}
		for i := range uint32(4) {
			fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				t.Fatal(err)
			}
			held[firstNumber+i] = fd
		}
		before, had := leaks.Descriptors(t), maps.Clone(held)
		k := &Keeping{known: map[*vhostuser.FD]uint32{}}
		p, err := k.parse(state, held)
		named := 0
		if err == nil {
			named = ownedBy(t, k, p, had)
			p.Close()
		} else if p != nil || !errors.Is(err, ErrState) && !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Errorf("%+v, %v", p, err)
		}
		if len(held) != len(had)-named || leaks.Descriptors(t) != before-named {
			t.Errorf("%d of %d descriptors are left, %d are named; %d are open, and were %d",
				len(held), len(had), named, leaks.Descriptors(t), before)
		}
		for _, fd := range held {
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	})
}

// ownedBy counts the descriptors that a session has, and checks that it has each only once, and
// that k knows its number.
func ownedBy(t *testing.T, k *Keeping, p *vhostuser.Snapshot, had map[uint32]int) (n int) {
	t.Helper()
	seen := map[int]bool{}
	for _, fd := range p.FDs() {
		if fd == nil {
			continue
		}
		if had[k.known[fd]] != fd.Int() || seen[fd.Int()] {
			t.Errorf("descriptor %d is number %d, and had twice: %t", fd.Int(), k.known[fd],
				seen[fd.Int()])
		}
		seen[fd.Int()] = true
	}
	return len(seen)
}
