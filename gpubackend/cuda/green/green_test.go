// SPDX-License-Identifier: Apache-2.0

package green

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
)

// fake is a driver. The context of a green context has that one's handle plus 300.
type fake struct {
	log    []string
	last   gpubackend.GreenContext
	handle gpubackend.Context // the next context's, if it isn't 0
	asked  string
}

func (f *fake) call(format string, args ...any) gpubackend.Result {
	f.log = append(f.log, fmt.Sprintf(format, args...))
	return gpubackend.Success
}

func (f *fake) take() string {
	s := strings.Join(f.log, ", ")
	f.log = nil
	return s
}

func (f *fake) CtxSynchronize() gpubackend.Result { return f.call("wait") }
func (f *fake) Resource(
	of gpubackend.ResourceSource, which, _ uint64,
) (gpubackend.Resource, gpubackend.Result) {
	f.asked = fmt.Sprintf("%d %d", of, which)
	return gpubackend.Resource{}, gpubackend.Success
}
func (f *fake) GreenCtxMake(
	_ gpubackend.ResourceDesc, device, _ uint64,
) (gpubackend.GreenContext, gpubackend.Result) {
	f.last++
	return f.last, f.call("make %d on %d", f.last, device)
}
func (f *fake) GreenCtxEnd(g gpubackend.GreenContext) gpubackend.Result {
	return f.call("end %d", g)
}
func (f *fake) CtxFromGreenCtx(g gpubackend.GreenContext) (gpubackend.Context, gpubackend.Result) {
	if f.handle != 0 {
		return f.handle, gpubackend.Success
	}
	return 300 + gpubackend.Context(g), gpubackend.Success
}
func (f *fake) GreenCtxStreamCreate(
	gpubackend.GreenContext, uint64, uint64,
) (gpubackend.Stream, gpubackend.Result) {
	return 5, gpubackend.Success
}

func newGreen() (*Green, *contexts.Contexts, *fake) {
	f := &fake{}
	var x *Green
	all, list := contextstest.New(func(c *contexts.Context) { x.Ended(c) })
	x = New(f, all, list, Hooks{
		Ending: func() { f.call("ending") },
		Ended:  func(c *contexts.Context) { f.call("ended %d", c.Handle) },
		Stream: func(s gpubackend.Stream,
			c *contexts.Context) {
			f.call("stream %d of %d", s, c.Handle)
		},
	})
	return x, all, f
}

func TestLives(t *testing.T) {
	x, all, f := newGreen()
	create := func() gpubackend.Result { _, _, r := x.GreenCtxCreate(1, 0, 1); return r }
	for _, step := range []struct {
		name string
		do   func() gpubackend.Result
		want gpubackend.Result
		log  string
	}{
		{"no such GPU", func() gpubackend.Result { _, _, r := x.GreenCtxCreate(1, 9, 1); return r },
			gpubackend.InvalidDevice, ""},
		{"no primary context",
			func() gpubackend.Result { _, _, r := x.GreenCtxCreate(1, 1, 1); return r },
			gpubackend.InvalidContext, ""},
		{"create", create, 0, "make 1 on 10"},
		{"stream", func() gpubackend.Result { _, r := x.GreenCtxStreamCreate(1, 0, 0); return r },
			0, "stream 5 of 301"},
		{"stream of none",
			func() gpubackend.Result { _, r := x.GreenCtxStreamCreate(2, 0, 0); return r },
			gpubackend.InvalidContext, ""},
		{"a context's handle", func() gpubackend.Result { f.handle = 301; return create() },
			gpubackend.NotSupported, "make 2 on 10, end 2"},
		{"make it current", func() gpubackend.Result { f.handle = 0; return all.SetCurrent(301) },
			0, ""},
		{"destroy", func() gpubackend.Result { return x.GreenCtxDestroy(1) }, 0,
			"ending, wait, end 1, ended 301"},
		{"destroy again", func() gpubackend.Result { return x.GreenCtxDestroy(1) },
			gpubackend.InvalidContext, ""},
		{"another", create, 0, "make 3 on 10"},
		{"reset", func() gpubackend.Result { return all.DevicePrimaryCtxReset(0) }, 0, "ended 303"},
	} {
		if r := step.do(); r != step.want {
			t.Fatalf("%s: result %d, want %d", step.name, r, step.want)
		}
		if got := f.take(); got != step.log {
			t.Fatalf("%s: %q, want %q", step.name, got, step.log)
		}
	}
	if x.Greens() != 0 || all.Known() != 1 || all.CurrentHandle() != contextstest.Primary {
		t.Errorf("%d green of %d contexts are left, %d is current", x.Greens(), all.Known(),
			all.CurrentHandle())
	}
}

// TestResourcesAreTheDrivers: the driver is asked, and devices have its own handles there.
func TestResourcesAreTheDrivers(t *testing.T) {
	x, _, f := newGreen()
	for _, test := range []struct {
		of    gpubackend.ResourceSource
		which uint64
		want  gpubackend.Result
		asked string
	}{
		{gpubackend.OfDevice, 1, 0, "0 11"},
		{gpubackend.OfContext, 110, 0, "1 110"},
		{gpubackend.OfGreenContext, 7, 0, "2 7"},
		{gpubackend.OfDevice, 2, gpubackend.InvalidDevice, ""},
		{9, 1, 0, "0 11"},
	} {
		f.asked = ""
		if _, r := x.DevResource(test.of, test.which, 1); r != test.want || f.asked != test.asked {
			t.Errorf("%d %d: result %d, asked %q", test.of, test.which, r, f.asked)
		}
	}
}
