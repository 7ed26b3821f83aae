// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"math"
	"sync"
	"testing"
)

// TestBudget takes up to the last byte, and not one more.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := New(100)
	if err := b.Take(100); err != nil || b.Used() != 100 || b.Room(1) || !b.Room(0) {
		t.Fatalf("all: %v, %d used", err, b.Used())
	}
	for _, n := range []uint64{1, math.MaxUint64, math.MaxUint64 - 99} {
		if err := b.Take(n); !errors.Is(err, ErrExceeded) || b.Used() != 100 {
			t.Errorf("%d more: %v, %d used", n, err, b.Used())
		}
	}
	b.Give(1)
	if err := b.Take(1); err != nil {
		t.Error(err)
	}
	b.Force(50)
	if b.SetLimit(120); b.Limit() != 120 {
		t.Errorf("a limit of %d", b.Limit())
	}
	if b.Used() != 150 || b.Room(0) || b.Take(0) == nil {
		t.Errorf("%d used beyond the limit", b.Used())
	}
	b.Give(150)
	if b.Used() != 0 || !b.Room(120) || b.Room(121) {
		t.Errorf("%d used in the end", b.Used())
	}
}

// TestAccounts: an account gives back exactly what it took, and can't take what another has.
func TestAccounts(t *testing.T) {
	t.Parallel()
	b := New(100)
	x, y := b.Open(), b.Open()
	if x.Take(60) != nil || y.Take(41) == nil || y.Take(40) != nil {
		t.Fatalf("%d used", b.Used())
	}
	x.Give(10)
	z := x.Sibling()
	if z.Take(11) == nil || z.Take(10) != nil || b.Used() != 100 {
		t.Errorf("%d used", b.Used())
	}
	if x.Refused() || x.Sibling().Refused() || !z.Refused() || !y.Refused() {
		t.Error("a refusal is forgotten, or another's")
	}
	y.Give(1000) // no more than it has
	x.Close()
	x.Close()
	if b.Used() != 10 || x.Bytes() != 0 || z.Bytes() != 10 {
		t.Errorf("%d used, want the 10 of the third", b.Used())
	}
	var part Account
	if part.Begin(b); part.Take(1000) == nil || part.Take(1) != nil || b.Used() != 11 {
		t.Errorf("an account that is part of something: %d used", b.Used())
	}
	part.Close()
	if x.Take(5) != nil || b.Used() != 15 {
		t.Error("a closed account can't be used anew")
	}
}

// TestNone: without a budget there is no limit.
func TestNone(t *testing.T) {
	t.Parallel()
	var b *Budget
	var a *Account
	b.SetLimit(1)
	b.Force(1)
	b.Give(1)
	a.Give(1)
	a.Close()
	open := b.Open()
	if b.Take(math.MaxUint64) != nil || !b.Room(2) || b.Used() != 0 || a.Take(1) != nil ||
		a.Bytes() != 0 || a.Sibling() != nil ||
		open.Take(7) != nil || open.Bytes() != 7 {
		t.Error("something is refused or counted")
	}
	open.Close()
}

// TestConcurrent: goroutines that take and give never have more than there is.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	b := New(3)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10000 {
				if b.Take(1) != nil {
					continue
				}
				if used := b.Used(); used < 1 || used > 3 {
					t.Errorf("%d of 3 used", used)
				}
				b.Give(1)
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Errorf("%d used in the end", b.Used())
	}
}
