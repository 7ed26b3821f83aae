// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestEventHandleIsPassedByValue: the fake looks at the first and the last word.
func TestEventHandleIsPassedByValue(t *testing.T) {
	d := newDevice(t, Options{})
	e, r := d.EventCreate(4 | cudaabi.EventDisableTiming)
	must(t, "create", r)
	s, fd, r := d.ShareEvent(e)
	must(t, "share", r)
	same, r := d.OpenEvent(s, fd)
	must(t, "open", r)
	if same != e || fd != -1 {
		t.Errorf("event %#x, file %d; shared %#x", same, fd, e)
	}
	s[63] ^= 1
	_, r = d.OpenEvent(s, fd)
	want(t, "another handle", r, gpubackend.InvalidHandle)
}
