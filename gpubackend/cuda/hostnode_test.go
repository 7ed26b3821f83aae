// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestHostNodes launches a graph several times. Each launch waits in the driver until the function
// of the launch before has been released.
func TestHostNodes(t *testing.T) {
	const token, launches = 1<<63 | 5, 20
	d := newDevice(t, Options{})
	due := make(chan func(), launches)
	called := func(got uint64, release func()) {
		if got != token {
			t.Errorf("function %#x is due", got)
		}
		due <- release
	}
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	_, _, _, r = d.GraphAddNode(g, nil, nil,
		&gpubackend.Node{Type: gpubackend.NodeHost, Token: token, Call: called})
	must(t, "add", r)
	e, r := d.GraphInstantiateWithFlags(g, 0)
	must(t, "instantiate", r)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range launches {
			(<-due)()
		}
	}()
	for range launches {
		must(t, "launch", d.GraphLaunch(e, 0))
	}
	<-ended
}
