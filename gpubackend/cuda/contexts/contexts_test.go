// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
)

// fake is a driver whose primary contexts have handles from 100 on, others from 200 on.
type fake struct {
	next    gpubackend.Context
	current gpubackend.Context
	log     []string
	work    driver.Work
	counts  uint64 // bytes that contexts count for: 5 each
	most    uint64 // ... at most; 0: any
	refuse  gpubackend.Result
}

func (f *fake) call(format string, args ...any) gpubackend.Result {
	f.log = append(f.log, fmt.Sprintf(format, args...))
	return gpubackend.Success
}

func (f *fake) DevicePrimaryCtxRetain(device uint64) (gpubackend.Context, gpubackend.Result) {
	if f.refuse != 0 {
		return 0, f.refuse
	}
	return gpubackend.Context(100 + device), f.call("retain %d", device)
}
func (f *fake) DevicePrimaryCtxRelease(device uint64) gpubackend.Result {
	return f.call("release %d", device)
}
func (f *fake) DevicePrimaryCtxReset(device uint64) gpubackend.Result {
	return f.call("reset %d", device)
}
func (f *fake) CtxCreate(_, _ uint64) (gpubackend.Context, gpubackend.Result) {
	if f.refuse != 0 {
		return 0, f.refuse
	}
	f.next++
	return 200 + f.next, f.call("create")
}
func (f *fake) CtxDestroy(c gpubackend.Context) gpubackend.Result { return f.call("destroy %d", c) }
func (f *fake) CtxSetCurrent(c gpubackend.Context) gpubackend.Result {
	f.current = c
	return gpubackend.Success
}
func (f *fake) CtxPopCurrent() gpubackend.Result  { return gpubackend.Success }
func (f *fake) CtxSynchronize() gpubackend.Result { return f.call("wait in %d", f.current) }
func (f *fake) CtxEnablePeerAccess(c gpubackend.Context, _ uint64) gpubackend.Result {
	if f.refuse != 0 {
		return f.refuse
	}
	return f.call("enable %d", c)
}
func (f *fake) CtxDisablePeerAccess(c gpubackend.Context) gpubackend.Result {
	return f.call("disable %d", c)
}
func (f *fake) ReportTo(work driver.Work) { f.work = work }

// newContexts is contexts of two GPUs. What the hooks are told goes to the fake's log.
func newContexts() (*Contexts, *fake, *bool) {
	var list gpus.List
	list.Set([]gpus.GPU{{Native: 10}, {Native: 11}})
	f, full := &fake{}, new(bool)
	x := New(f, &list)
	x.SetHooks(Hooks{
		Ending:  func() {},
		Room:    func(int) bool { return !*full },
		Take:    f.takeContext,
		Give:    func(_ int, bytes uint64) { f.counts -= bytes },
		Began:   func(c *Context) { f.call("began %d", c.Handle) },
		Ready:   func(c *Context) { f.call("ready %d", c.Handle) },
		Current: func() {},
		Holds:   func(*Context) bool { return true },
		Ended:   func(c *Context) { f.call("ended %d", c.Handle) },
		Connect: func(from, of int, reaches bool) gpubackend.Result {
			return f.call("connect %d %d %v", from, of, reaches)
		},
	})
	return x, f, full
}

func (f *fake) takeContext(int) (uint64, bool) {
	const bytes = 5
	if f.most != 0 && f.counts+bytes > f.most {
		return 0, false
	}
	f.counts += bytes
	return bytes, true
}

// take returns what happened since the last call.
func (f *fake) take() string {
	s := strings.Join(f.log, ", ")
	f.log = nil
	return s
}

func TestLives(t *testing.T) {
	x, f, full := newContexts()
	create := func() gpubackend.Result { _, r := x.CtxCreate(0, 0); return r }
	retain := func(dev uint64) func() gpubackend.Result {
		return func() gpubackend.Result { _, r := x.DevicePrimaryCtxRetain(dev); return r }
	}
	for _, step := range []struct {
		name string
		do   func() gpubackend.Result
		want gpubackend.Result
		log  string
	}{
		{"no such GPU", retain(2), gpubackend.InvalidDevice, ""},
		{"first reference", retain(0), 0, "retain 10, began 110, ready 110"},
		{"second reference", retain(0), 0, "retain 10"},
		{"make it current", func() gpubackend.Result { return x.SetCurrent(110) }, 0, ""},
		{"drop one", func() gpubackend.Result { return x.DevicePrimaryCtxRelease(0) }, 0,
			"release 10"},
		{"reset", func() gpubackend.Result { return x.DevicePrimaryCtxReset(0) }, 0,
			"wait in 110, reset 10, ended 110, began 110, ready 110"},
		{"drop the other", func() gpubackend.Result { return x.DevicePrimaryCtxRelease(0) }, 0,
			"wait in 110, release 10, ended 110"},
		{"drop what isn't there", func() gpubackend.Result { return x.DevicePrimaryCtxRelease(0) },
			gpubackend.InvalidContext, ""},
		{"again, while it is current", retain(0), 0, "retain 10, began 110, ready 110"},
		{"one of its own", create, 0, "create, began 201, ready 201"},
		{"destroy a primary one", func() gpubackend.Result { return x.CtxDestroy(110) },
			gpubackend.InvalidContext, ""},
		{"destroy it", func() gpubackend.Result { return x.CtxDestroy(201) }, 0,
			"wait in 201, destroy 201, ended 201"},
		{"destroy it again", func() gpubackend.Result { return x.CtxDestroy(201) },
			gpubackend.InvalidContext, ""},
		{"no room", func() gpubackend.Result { *full = true; return create() },
			gpubackend.OutOfMemory, ""},
		{"no room for another primary one", retain(1), gpubackend.OutOfMemory, ""},
		{"room for a reference", retain(0), 0, "retain 10"},
	} {
		if r := step.do(); r != step.want {
			t.Fatalf("%s: result %d, want %d", step.name, r, step.want)
		}
		if got := f.take(); got != step.log {
			t.Fatalf("%s: %q, want %q", step.name, got, step.log)
		}
	}
	if x.CurrentHandle() != 110 || f.current != 110 || !x.Usable() || x.Known() != 1 {
		t.Errorf("%d is current, %d in the driver; %d contexts", x.CurrentHandle(), f.current,
			x.Known())
	}
}

// TestWarmUpIsUsedOnce, or given up when the process makes a context of its own, or one of another
// GPU first: of a GPU that it doesn't use it has nothing.
func TestWarmUpIsUsedOnce(t *testing.T) {
	for _, test := range []struct {
		first func(x *Contexts)
		log   string
	}{
		{func(x *Contexts) { x.DevicePrimaryCtxRetain(0) }, "began 110, ready 110, retain 10"},
		{func(x *Contexts) { x.CtxCreate(0, 0) },
			"release 10, create, began 201, ready 201, retain 10, began 110, ready 110"},
		{func(x *Contexts) { x.DevicePrimaryCtxRetain(1) },
			"release 10, retain 11, began 111, ready 111, retain 10, began 110, ready 110"},
		{func(x *Contexts) { x.DevicePrimaryCtxReset(0) },
			"release 10, reset 10, retain 10, began 110, ready 110"},
	} {
		x, f, _ := newContexts()
		x.WarmUp(0)
		f.take()
		test.first(x)
		x.DevicePrimaryCtxRetain(0)
		if got := f.take(); got != test.log {
			t.Errorf("%q, want %q", got, test.log)
		}
	}
}

// TestErrorsEndTheContext, and its green ones, until it begins anew.
func TestErrorsEndTheContext(t *testing.T) {
	x, _, _ := newContexts()
	h, _ := x.DevicePrimaryCtxRetain(0)
	green := x.AddGreen(300, x.Of(h))
	x.SetCurrent(300)
	x.Failed(gpubackend.InvalidValue)
	if x.Any() == nil || x.Of(h).Dead() != gpubackend.Success {
		t.Error("an argument's error ended it")
	}
	if r := x.Failed(gpubackend.IllegalAddress); r != gpubackend.IllegalAddress {
		t.Errorf("result %d", r)
	}
	if green.Dead() != gpubackend.IllegalAddress || x.Of(h).Dead() != gpubackend.IllegalAddress ||
		x.Any() != nil {
		t.Error("it goes on")
	}
	x.RemoveGreen(green)
	x.DevicePrimaryCtxReset(0)
	if x.Of(h).Dead() != gpubackend.Success {
		t.Error("the error outlived a reset")
	}
}

func TestGreenContextsArePartOfTheirBase(t *testing.T) {
	x, f, _ := newContexts()
	h, _ := x.DevicePrimaryCtxRetain(0)
	other, _ := x.DevicePrimaryCtxRetain(1)
	base := x.Of(h)
	if n := len(slices.Collect(x.Green(base))); n != 0 {
		t.Errorf("%d green contexts", n)
	}
	a, b := x.AddGreen(300, base), x.AddGreen(301, base)
	if n := len(slices.Collect(x.Green(base))); n != 2 {
		t.Errorf("%d green contexts", n)
	}
	if n := len(slices.Collect(x.Green(x.Of(other)))); n != 0 {
		t.Errorf("%d green contexts of another", n)
	}
	x.SetCurrent(300)
	if x.Home() != base || a.GPU != 0 || !a.Exists() || f.work != &a.Work {
		t.Error("it isn't the base's")
	}
	if r := x.CtxDestroy(300); r != gpubackend.InvalidContext {
		t.Errorf("destroyed as a context: %d", r)
	}
	x.RemoveGreen(a)
	x.RemoveGreen(a)
	if got := slices.Collect(x.Green(base)); len(got) != 1 || got[0] != b {
		t.Errorf("%d are left", len(got))
	}
}

// TestInPutsBack what was current, whatever comes of it.
func TestInPutsBack(t *testing.T) {
	x, f, _ := newContexts()
	h, _ := x.DevicePrimaryCtxRetain(0)
	other, _ := x.DevicePrimaryCtxRetain(1)
	for _, before := range []gpubackend.Context{0, h, other} {
		x.SetCurrent(before)
		r := x.In(x.Of(other), func() gpubackend.Result {
			if f.current != other || x.Current() != x.Of(other) {
				t.Errorf("%d is current", f.current)
			}
			return gpubackend.NotReady
		})
		if r != gpubackend.NotReady || f.current != before || x.CurrentHandle() != before {
			t.Errorf("result %d, %d is current, not %d", r, f.current, before)
		}
	}
	if r := x.In(&Context{Handle: 999},
		func() gpubackend.Result { t.Error("called"); return 0 }); r != gpubackend.InvalidContext {
		t.Errorf("in no context: %d", r)
	}
}

// TestContextsCount: each once from before it begins until it has ended, however often it is
// retained or reset.
func TestContextsCount(t *testing.T) {
	x, f, _ := newContexts()
	f.most = 10
	var made gpubackend.Context
	create := func() (r gpubackend.Result) {
		var h gpubackend.Context
		if h, r = x.CtxCreate(0, 1); r == gpubackend.Success {
			made = h
		}
		return r
	}
	retain := func() gpubackend.Result { _, r := x.DevicePrimaryCtxRetain(0); return r }
	release := func() gpubackend.Result { return x.DevicePrimaryCtxRelease(0) }
	reset := func() gpubackend.Result { return x.DevicePrimaryCtxReset(0) }
	warm := func() gpubackend.Result { return x.WarmUp(1) }
	set := func(refuse gpubackend.Result, do func() gpubackend.Result) func() gpubackend.Result {
		return func() gpubackend.Result { f.refuse = refuse; return do() }
	}
	for i, test := range []struct {
		name   string
		do     func() gpubackend.Result
		want   gpubackend.Result
		counts uint64
	}{
		{"warm", func() gpubackend.Result { return x.WarmUp(0) }, 0, 5},
		{"the warm one", retain, 0, 5},
		{"again", retain, 0, 5},
		{"another", create, 0, 10},
		{"too many", create, gpubackend.OutOfMemory, 10},
		{"reset", reset, 0, 10},
		{"released once", release, 0, 10},
		{"released", release, 0, 5},
		{"reset without a reference", reset, 0, 5},
		{"begins anew", retain, 0, 10},
		{"destroyed", func() gpubackend.Result { return x.CtxDestroy(made) }, 0, 5},
		{"the driver refuses", set(gpubackend.NotInitialized, create), gpubackend.NotInitialized,
			5},
		{"released again", set(0, release), 0, 0},
		{"the driver refuses the primary one", set(gpubackend.Deinitialized, retain),
			gpubackend.Deinitialized, 0},
		{"it refuses a warm one", warm, gpubackend.Deinitialized, 0},
		{"warm", set(0, warm), 0, 5},
		{"one that nobody asked for makes room", create, 0, 5},
		{"full", func() gpubackend.Result {
			f.most = 1
			return warm()
		}, gpubackend.OutOfMemory, 5},
	} {
		if got := test.do(); got != test.want || f.counts != test.counts {
			t.Fatalf("%d, %s: result %d, %d bytes count; want %d, %d",
				i, test.name, got, f.counts, test.want, test.counts)
		}
	}
}
