// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
)

// fake is a driver and memory with one segment, from 0x1000 to 0x3000.
type fake struct {
	log    []string
	refuse string // the call that fails
}

func (f *fake) call(name string) gpubackend.Result {
	f.log = append(f.log, name)
	if name == f.refuse {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

func (f *fake) MemRetain(uint64) (uint64, gpubackend.Result) { return 5, f.call("retain") }
func (f *fake) MemRelease(uint64) gpubackend.Result          { return f.call("release") }
func (f *fake) MemExport(uint64) (int, gpubackend.Result) {
	r := f.call("export")
	if r != gpubackend.Success {
		return -1, r
	}
	return 9, r
}
func (f *fake) IpcOpenEventHandle(gpubackend.SharedEvent) (gpubackend.Event, gpubackend.Result) {
	return 77, f.call("open")
}
func (f *fake) Segment(addr uint64) (base, bytes uint64, allocated, ok bool) {
	return 0x1000, 0x2000, addr == 0x2000, addr >= 0x1000 && addr < 0x3000
}
func (f *fake) WatchSegments(gone func(addr, bytes uint64)) { gone(0x1000, 0x2000) }
func (f *fake) Import(_ int, bytes uint64) (uint64, error) {
	if bytes > 0x2000 {
		return 0, errors.New("more than there is")
	}
	return 0x8000, nil
}
func (f *fake) TakeImport(addr uint64, _ int, bytes uint64) error {
	if addr != 0x8000 || bytes != 0x2000 {
		return errors.New("it wasn't there")
	}
	return nil
}
func (f *fake) Unimport(addr uint64) error {
	if addr != 0x8000 {
		return errors.New("not imported")
	}
	return nil
}

func newSharing(f *fake) *Sharing {
	x, _ := contextstest.New(nil)
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(f, x, f, logrus.NewEntry(log))
}

func TestShare(t *testing.T) {
	for _, test := range []struct {
		name   string
		addr   uint64
		refuse string
		want   gpubackend.Result
		shared gpubackend.Shared
		log    string
	}{
		{"an allocation", 0x2000, "", 0,
			gpubackend.Shared{Bytes: 0x2000, Offset: 0x1000, Allocated: true},
			"retain export release"},
		{"in the middle of one", 0x2010, "", 0, gpubackend.Shared{Bytes: 0x2000, Offset: 0x1010},
			"retain export release"},
		{"no memory", 0x3000, "", gpubackend.InvalidValue, gpubackend.Shared{}, ""},
		{"the driver doesn't know it", 0x2000, "retain", gpubackend.InvalidValue,
			gpubackend.Shared{}, "retain"},
		{"the driver makes no file", 0x2000, "export", gpubackend.InvalidValue, gpubackend.Shared{},
			"retain export release"},
	} {
		f := &fake{refuse: test.refuse}
		s, fd, r := newSharing(f).Share(test.addr)
		if r != test.want || s != test.shared || (fd == 9) != (r == gpubackend.Success) {
			t.Errorf("%s: %+v, file %d, result %d", test.name, s, fd, r)
		}
		if got := strings.Join(f.log, " "); got != test.log {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func TestMapShared(t *testing.T) {
	x := newSharing(&fake{})
	if addr, r := x.MapShared(gpubackend.Shared{Bytes: 0x2000}, 3); addr != 0x8000 ||
		r != gpubackend.Success {
		t.Errorf("%#x, result %d", addr, r)
	}
	if _, r := x.MapShared(gpubackend.Shared{Bytes: 0x4000}, 3); r != gpubackend.OutOfMemory {
		t.Errorf("result %d", r)
	}
	if r := x.TakeShared(0x8000, gpubackend.Shared{Bytes: 0x2000}, 3); r != gpubackend.Success {
		t.Errorf("again: %d", r)
	}
	if r := x.TakeShared(0x9000, gpubackend.Shared{Bytes: 0x2000}, 3); r == gpubackend.Success {
		t.Error("again where it wasn't")
	}
	if r := x.UnmapShared(0x8000); r != gpubackend.Success {
		t.Errorf("unmap: %d", r)
	}
	if r := x.UnmapShared(0x9000); r != gpubackend.InvalidValue {
		t.Errorf("unmap another: %d", r)
	}
	x.contexts.SetCurrent(0)
	_, _, r := x.Share(0x2000)
	_, mapped := x.MapShared(gpubackend.Shared{}, 3)
	_, opened := x.OpenEvent(gpubackend.SharedEvent{}, -1)
	if r != gpubackend.InvalidContext || mapped != r || opened != r {
		t.Errorf("without a context: %d, %d, %d", r, mapped, opened)
	}
}
