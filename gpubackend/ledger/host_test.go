// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"testing"
)

// TestHostMemory: the VM's processes have one bound. What a process took before it joined counts
// once it has joined, and what one leaves is given back.
func TestHostMemory(t *testing.T) {
	p := newPage(t, 0)
	audit := NewAudit(p, 0)
	audit.SetHostBound(100)
	var a, b HostAccount
	if !b.Take(30) || p.HostTaken() != 0 {
		t.Error("one without an entry can't take")
	}
	a.Join(p, 0)
	if !a.Take(60) || p.HostTaken() != 60 {
		t.Errorf("%d taken", p.HostTaken())
	}
	b.Join(p, Warm)
	b.Join(p, Workers-1)
	if p.HostTaken() != 90 || p.hasHost(Warm) || !p.hasHost(Workers-1) {
		t.Errorf("%d taken after the other joined", p.HostTaken())
	}
	for _, bytes := range []uint64{11, math.MaxUint64, math.MaxUint64 - 80} {
		if a.Take(bytes) || b.Take(bytes) || p.HostTaken() != 90 {
			t.Errorf("%d more than there is: %d taken", bytes, p.HostTaken())
		}
	}
	if !b.Take(10) || a.Take(1) {
		t.Errorf("the last: %d taken", p.HostTaken())
	}
	a.Force(5)
	a.Give(15)
	audit.End(Workers - 1) // it was killed
	if p.HostTaken() != 50 {
		t.Errorf("%d taken after the end of one", p.HostTaken())
	}
	a.Give(1000)
	if p.HostTaken() != 0 || p.hasHost(0) {
		t.Errorf("%d taken in the end", p.HostTaken())
	}
}

// TestHostLiars: what a process writes to the page lasts until the next look, or until nobody has
// that entry.
func TestHostLiars(t *testing.T) {
	p := newPage(t, 0)
	audit := NewAudit(p, 0)
	audit.SetHostBound(100)
	var a HostAccount
	a.Join(p, 3)
	a.Take(40)
	p.SetHostBound(0)
	p.hostTaken().Store(5)
	for range 2 {
		audit.Look(nil, nil)
	}
	if p.HostBound() != 100 || p.HostTaken() != 40 {
		t.Errorf("a bound of %d, %d taken", p.HostBound(), p.HostTaken())
	}
	p.hostHeld(9).Store(math.MaxUint64)
	audit.Empty(9)
	if p.hasHost(9) {
		t.Error("what nobody has is left")
	}
	p.hostTaken().Store(1)
	a.Give(40)
	if p.HostTaken() != 0 {
		t.Errorf("%d taken", p.HostTaken())
	}
}
