// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/peers"
)

// fake gives access and takes it back. While refuse is set, it refuses to give any.
type fake struct {
	refuse gpubackend.Result
	log    []string
}

func (f *fake) change(from, of any, reaches bool) gpubackend.Result {
	if reaches && f.refuse != gpubackend.Success {
		return f.refuse
	}
	sign := "-"
	if reaches {
		sign = "+"
	}
	f.log = append(f.log, fmt.Sprint(sign, from, of))
	return gpubackend.Success
}

// want checks what was changed since the last look, in any order.
func (f *fake) want(t *testing.T, what string, log ...string) {
	t.Helper()
	if slices.Sort(f.log); !slices.Equal(f.log, log) {
		t.Errorf("%s: %q, want %q", what, f.log, log)
	}
	f.log = nil
}

func newContexts() (*peers.Contexts[int], *fake) {
	f := &fake{}
	return peers.NewContexts(func(from, of int, reaches bool) gpubackend.Result {
		return f.change(from, of, reaches)
	}), f
}

func TestContexts(t *testing.T) {
	x, f := newContexts()
	f.refuse = gpubackend.OutOfMemory
	if r := x.Give(1, 2); r != gpubackend.OutOfMemory || x.Has(1, 2) {
		t.Errorf("it has access that was refused with %d", r)
	}
	f.refuse = gpubackend.Success
	for range 2 {
		if r := x.Give(1, 2); r != gpubackend.Success || !x.Has(1, 2) || x.Has(2, 1) {
			t.Errorf("result %d, access %t, the way back %t", r, x.Has(1, 2), x.Has(2, 1))
		}
	}
	f.want(t, "given twice", "+1 2")
	x.Take(2, 1)
	f.want(t, "never given")
	x.Take(1, 2)
	if x.Take(1, 2); x.Has(1, 2) {
		t.Error("it has access that was taken back")
	}
	f.want(t, "taken back twice", "-1 2")
}

func TestEnd(t *testing.T) {
	x, f := newContexts()
	for _, pair := range [][2]int{{1, 2}, {2, 1}, {3, 1}, {1, 4}, {3, 4}} {
		x.Give(pair[0], pair[1])
	}
	f.log = nil
	x.End(1)
	f.want(t, "its end", "-1 2", "-1 4", "-2 1", "-3 1")
	if !x.Has(3, 4) {
		t.Error("the end of one took back the access of others")
	}
	x.Clear()
	if x.End(3); x.Has(3, 4) {
		t.Error("something is left")
	}
	f.want(t, "cleared")
}

func TestGPUs(t *testing.T) {
	f := &fake{refuse: gpubackend.OutOfMemory}
	g := peers.NewGPUs(func(from, of int, reaches bool) gpubackend.Result {
		return f.change(from, of, reaches)
	})
	step := func(what string, reaches bool, want gpubackend.Result, log ...string) {
		t.Helper()
		if r := g.Connect(0, 1, reaches); r != want {
			t.Errorf("%s: result %d", what, r)
		}
		f.want(t, what, log...)
	}
	step("not given", false, gpubackend.Success)
	step("refused", true, gpubackend.OutOfMemory)
	step("refused, so not given", false, gpubackend.Success)
	f.refuse = gpubackend.Success
	step("first", true, gpubackend.Success, "+0 1")
	f.refuse = gpubackend.OutOfMemory // isn't asked
	step("again", true, gpubackend.Success)
	g.Connect(1, 0, false)
	f.want(t, "the way back")
	step("once back", false, gpubackend.Success)
	step("last", false, gpubackend.Success, "-0 1")
	step("one too many", false, gpubackend.Success)
}
