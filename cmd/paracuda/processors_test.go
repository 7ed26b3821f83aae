// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/starter"
)

// TestProcessors: with many processors each role begins with as many as it uses, and those that it
// starts know how many there are. With few all stays as it is.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(200))
	user := []string{"A=1", "GOMAXPROCS=200", "B=2"}
	keeper := withProcessors(user, waitingProcessors)
	if want := []string{"A=1", "B=2", "GOMAXPROCS=2", "PARACUDA_PROCESSORS=200"}; !slices.Equal(
		keeper, want) {
		t.Errorf("a keeper has %q, want %q", keeper, want)
	}
	if again := withProcessors(keeper, waitingProcessors); !slices.Equal(again, keeper) {
		t.Errorf("executed anew it has %q", again)
	}
	runtime.GOMAXPROCS(2)
	for _, c := range []struct {
		role starter.Role
		gpu  string
		want string
	}{
		{starter.Worker, gpuSoft, "GOMAXPROCS=200"}, {starter.Worker, gpuCUDA, "GOMAXPROCS=16"},
		{starter.Mover, gpuSoft, "GOMAXPROCS=4"}, {starter.Mover, gpuCUDA, "GOMAXPROCS=4"},
		{starter.Usage, gpuCUDA, "GOMAXPROCS=16"},
	} {
		if got := childEnvironment(keeper, c.role, c.gpu); !slices.Contains(got, c.want) ||
			len(got) != len(keeper) {
			t.Errorf("a %s on %s has %q, want %s", c.role, c.gpu, got, c.want)
		}
	}
	for _, all := range [][]string{nil, {"GOMAXPROCS=8"}, {"PARACUDA_PROCESSORS=many"}} {
		if got := withProcessors(all, waitingProcessors); !slices.Equal(got, all) {
			t.Errorf("with few processors %q becomes %q", all, got)
		}
	}
}
