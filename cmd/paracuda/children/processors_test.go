// SPDX-License-Identifier: Apache-2.0

package children

import (
	"runtime"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/starter"
)

// TestProcessors: with many processors each role begins with as many as it uses, and those that it
// starts know how many there are. With few all stays as it is.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(200))
	user := []string{"A=1", "GOMAXPROCS=200", "B=2"}
	keeper := process.WithProcessors(user, process.WaitingProcessors)
	if want := []string{"A=1", "B=2", "GOMAXPROCS=2", "PARACUDA_PROCESSORS=200"}; !slices.Equal(
		keeper, want) {
		t.Errorf("a keeper has %q, want %q", keeper, want)
	}
	again := process.WithProcessors(keeper, process.WaitingProcessors)
	if !slices.Equal(again, keeper) {
		t.Errorf("executed anew it has %q", again)
	}
	runtime.GOMAXPROCS(2)
	for _, c := range []struct {
		role starter.Role
		gpu  string
		want string
	}{
		{starter.Worker, hostgpus.Soft, "GOMAXPROCS=200"},
		{starter.Worker, hostgpus.CUDA, "GOMAXPROCS=16"},
		{starter.Mover, hostgpus.Soft, "GOMAXPROCS=4"},
		{starter.Mover, hostgpus.CUDA, "GOMAXPROCS=4"},
		{starter.Usage, hostgpus.CUDA, "GOMAXPROCS=16"},
	} {
		if got := childEnvironment(keeper, c.role, c.gpu); !slices.Contains(got, c.want) ||
			len(got) != len(keeper) {
			t.Errorf("a %s on %s has %q, want %s", c.role, c.gpu, got, c.want)
		}
	}
	for _, all := range [][]string{nil, {"GOMAXPROCS=8"}, {"PARACUDA_PROCESSORS=many"}} {
		if got := process.WithProcessors(all, process.WaitingProcessors); !slices.Equal(got, all) {
			t.Errorf("with few processors %q becomes %q", all, got)
		}
	}
}
