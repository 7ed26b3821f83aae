// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestPeers: the driver is asked each time. For each context that reaches a peer's memory the GPUs
// are connected once, and disconnected once.
func TestPeers(t *testing.T) {
	x, f, _ := newContexts()
	first, _ := x.DevicePrimaryCtxRetain(0)
	second, _ := x.DevicePrimaryCtxRetain(1)
	other, _ := x.CtxCreate(0, 0)
	took := func() (list []string) {
		for _, line := range f.log {
			if strings.Contains(line, "able") || strings.Contains(line, "connect") {
				list = append(list, line)
			}
		}
		f.log = nil
		return list
	}
	want := func(what string, r, result gpubackend.Result, log ...string) {
		t.Helper()
		if got := took(); r != result || !slices.Equal(got, log) {
			t.Errorf("%s: result %d, %q", what, r, got)
		}
	}
	want("without a context", x.CtxEnablePeerAccess(second, 0), gpubackend.InvalidContext)
	x.SetCurrent(first)
	want("nothing", x.CtxEnablePeerAccess(7, 0), gpubackend.InvalidContext)
	f.refuse = gpubackend.PeerAccessUnsupported
	want("no way", x.CtxEnablePeerAccess(second, 0), gpubackend.PeerAccessUnsupported)
	f.refuse = 0
	want("first", x.CtxEnablePeerAccess(second, 0), 0, "enable 111", "connect 0 1 true")
	x.SetCurrent(other)
	want("another of its GPU", x.CtxEnablePeerAccess(second, 0), 0, "enable 111",
		"connect 0 1 true")
	want("once more", x.CtxEnablePeerAccess(second, 0), 0, "enable 111")
	want("and no more", x.CtxDisablePeerAccess(second), 0, "disable 111", "connect 0 1 false")
	x.CtxEnablePeerAccess(second, 0)
	took()
	x.CtxDestroy(other)
	want("its end", 0, 0, "connect 0 1 false")
	x.DevicePrimaryCtxReset(1)
	want("the peer's end", 0, 0, "connect 0 1 false")
	x.SetCurrent(second)
	want("the way back", x.CtxEnablePeerAccess(first, 0), 0, "enable 110", "connect 1 0 true")
	want("off", x.CtxDisablePeerAccess(first), 0, "disable 110", "connect 1 0 false")
}
