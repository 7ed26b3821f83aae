// SPDX-License-Identifier: Apache-2.0

package numbering

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// again opens a file to be read only, and counts that.
func again(times *int) func(fd int) (*os.File, error) {
	return func(fd int) (*os.File, error) {
		*times++
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	}
}

// mustBe fails unless these are the same files, open to be read only.
func mustBe(t *testing.T, opened []*os.File, fds []int) {
	t.Helper()
	if len(opened) != len(fds) {
		t.Fatalf("%d files of %d", len(opened), len(fds))
	}
	for i, f := range opened {
		want, err := identify(fds[i])
		got, e := identify(int(f.Fd()))
		flags, e2 := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err := errors.Join(err, e, e2); err != nil || got != want ||
			flags&unix.O_ACCMODE != unix.O_RDONLY {
			t.Errorf("file %d: flags %#o, %v", i, flags, err)
		}
	}
}

// TestOpenedOnce: a file is opened once while it is in use, by this process or the next one. What
// isn't used any more is closed.
func TestOpenedOnce(t *testing.T) {
	s := keepertest.Store{}
	defer s.Close()
	f := files(t, 3)
	times := 0
	for i, step := range []struct {
		use  []int
		want int // files that are opened so far
	}{{nil, 0}, {f[:1], 1}, {f[:2], 2}, {f[1:], 3}, {f[1:], 3}, {f, 4}, {nil, 4}, {f[:1], 5}} {
		n, end := next(t, s)
		o := n.NewOpened(again(&times))
		for range 2 { // memory may be sent again
			list, err := o.All(step.use)
			if err != nil {
				t.Fatal(err)
			}
			o.Keep(list)
			mustBe(t, list, step.use)
		}
		if times != step.want || len(o.has) != len(step.use) {
			t.Errorf("step %d: %d files were opened, and %d are open", i, times, len(o.has))
		}
		for _, x := range o.has { // the process ends
			_ = x.Close()
		}
		end()
	}
}

// TestOpenedIsChecked: what was left and can be written to isn't taken. Where a file can't be
// opened there is none.
func TestOpenedIsChecked(t *testing.T) {
	s := keepertest.Store{}
	defer s.Close()
	f := files(t, 2)
	n, end := next(t, s)
	n.remains.Keep(remains.Reading(0), f[0])
	end()
	n, end = next(t, s)
	defer end()
	no := errors.New("no")
	o := n.NewOpened(func(int) (*os.File, error) { return nil, no })
	if list, err := o.All(f); !errors.Is(err, no) || list != nil || len(o.has) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	o.Keep(nil)
	if _, err := o.All([]int{-1}); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	var none *remains.Remains
	without, err := New(none, first, count)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	o = without.NewOpened(again(&times))
	list, err := o.All(f)
	if err != nil {
		t.Fatal(err)
	}
	o.Keep(list)
	mustBe(t, list, f)
	o.Keep(nil)
	if len(o.has) != 0 {
		t.Error("they stay open")
	}
}
