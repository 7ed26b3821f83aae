// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// TestOneThatCannotBegin leaves all in the file, from which they begin when it can.
func TestOneThatCannotBegin(t *testing.T) {
	for _, why := range []error{errNo, errPanics} {
		v := newVM(t, "a", "b", "c")
		f := v.mustSave()
		v.fails["b"] = why
		if _, err := v.Load(bytes.NewReader(f), silent); err == nil {
			t.Fatal("loaded")
		}
		v.mustRun()
		if len(v.made) != 1 || v.suspension.State() != suspend.Suspended {
			t.Fatalf("%d were made, the VM is %s", len(v.made), v.suspension.State())
		}
		delete(v.fails, "b")
		v.workers = [3]*fakeWorker{}
		if _, err := v.Load(bytes.NewReader(f), silent); err != nil {
			t.Fatal(err)
		}
		v.mustRun("0a", "1b", "2c")
	}
}

// TestProgramsThatEndWhileTheyBegin: the others go on without them, each with one worker.
func TestProgramsThatEndWhileTheyBegin(t *testing.T) {
	for _, ends := range []string{"a", "b", "c", "abc"} {
		v := newVM(t, "a", "b", "c")
		f := v.mustSave()
		v.ends = map[string]bool{}
		var want []string
		for i, text := range []string{"a", "b", "c"} {
			if v.ends[text] = strings.Contains(ends, text); !v.ends[text] {
				want = append(want, fmt.Sprint(i, text))
			}
		}
		m, err := v.Load(bytes.NewReader(f), silent)
		if err != nil || m.Bytes != uint64(len(want))*memory {
			t.Fatalf("%s: %+v, %v", ends, m, err)
		}
		v.mustRun(want...)
		live := 0
		for _, w := range v.made {
			if !w.ended {
				live++
			}
		}
		if live != len(want) || len(v.savedChannels()) != 0 {
			t.Errorf("%s: %d workers live, channels %v are saved", ends, live, v.savedChannels())
		}
	}
}

// TestForgotten: a program whose driver is gone isn't made again, and when none is left the file is
// of no use.
func TestForgotten(t *testing.T) {
	v := newVM(t, "a", "b")
	f := v.mustSave()
	v.Forget(0)
	v.Forget(0)
	v.Forget(2)
	if m, err := v.Load(bytes.NewReader(f), silent); err != nil || m.Bytes != memory {
		t.Fatalf("%+v, %v", m, err)
	}
	v.mustRun("1b")
	f = v.mustSave()
	v.Forget(1)
	if v.suspension.Status().Saved {
		t.Fatal("there is still something in the file")
	}
	if _, err := v.Load(bytes.NewReader(f), silent); err == nil {
		t.Fatal("nothing is left of what was saved")
	}
}
