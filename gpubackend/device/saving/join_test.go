// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// joins are the programs that took what others share with them, each with how many workers there
// were then, and those that can't.
type joins struct {
	took  []string
	fails string
}

func (j *joins) of(text string, workers int) error {
	if text == j.fails {
		return errNo
	}
	j.took = append(j.took, fmt.Sprint(text, workers))
	return nil
}

// TestAllJoin: workers take what others share with them when all have begun. If one can't, none
// goes on, and it can be tried again.
func TestAllJoin(t *testing.T) {
	for _, takes := range []func(v *fakeVM) error{
		func(v *fakeVM) error {
			f := v.mustSave()
			if _, err := v.Load(bytes.NewReader(f), silent); err != nil {
				if s := v.suspension.State(); s != suspend.Suspended {
					t.Errorf("the VM is %s", s)
				}
				v.mustRun()
				v.joins = joins{}
				_, again := v.Load(bytes.NewReader(f), silent)
				return errors.Join(err, again)
			}
			return nil
		},
		func(v *fakeVM) error {
			stream := v.mustCopy()
			v.workers = [3]*fakeWorker{}
			if err := v.arrives(stream); err != nil {
				v.mustRun()
				v.joins = joins{}
				return errors.Join(err, v.arrives(stream))
			}
			return nil
		},
	} {
		for _, fails := range []string{"", "a", "b", "c"} {
			v := newVM(t, "a", "b", "c")
			v.joins.fails = fails
			err := takes(v)
			if (fails != "") != errors.Is(err, errNo) {
				t.Errorf("%q can't: %v", fails, err)
			}
			if want := []string{"a3", "b3", "c3"}; !slices.Equal(v.joins.took, want) {
				t.Errorf("%q can't, and then can: %q took it, want %q", fails, v.joins.took, want)
			}
			v.mustRun("0a", "1b", "2c")
		}
	}
}
