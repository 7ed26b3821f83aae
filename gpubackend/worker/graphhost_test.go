// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/hostfuncs"
)

// launchDriver lets a graph be launched only when the host functions of its last launch have
// returned, as the real driver does inside cuGraphLaunch.
type launchDriver struct {
	gpubackend.Driver
	released chan struct{}
	running  int // functions of launches that weren't waited for
}

func (d *launchDriver) GraphAddNode(
	g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, n *gpubackend.Node,
) (
	gpubackend.GraphNode, uint64, []gpubackend.Graph, gpubackend.Result,
) {
	if call := n.Call; call != nil {
		n.Call = func(token uint64, release func()) {
			call(token, func() { release(); d.released <- struct{}{} })
		}
	}
	return d.Driver.GraphAddNode(g, after, edges, n)
}

func (d *launchDriver) GraphLaunch(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	for ; d.running > 0; d.running-- {
		<-d.released
	}
	d.running++
	return d.Driver.GraphLaunch(e, s)
}

// addHostNode adds a host function to a graph by hand.
func (r *rig) addHostNode(t *testing.T, graph, token uint64) gpubackend.Result {
	t.Helper()
	record := binary.LittleEndian.AppendUint64(nil, uint64(gpubackend.NodeHost))
	record = binary.LittleEndian.AppendUint64(record, token)
	ref, bytes := r.given(record)
	return r.call(t, gpubackend.OpGraphAddNode, graph, 0, 0, 0, 0, ref, bytes, 0, 0)
}

// TestLaunchThatWaitsForAHostNode: the loop launches a graph made by hand, and each launch returns
// only when the guest has run the function of the launch before. No host function was queued in a
// stream before.
func TestLaunchThatWaitsForAHostNode(t *testing.T) {
	const n = 20
	r := onSoft(t)
	r.use(&launchDriver{Driver: r.Worker.driver, released: make(chan struct{}, n)})
	defer r.hostFuncs.Close()
	g := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	if got := r.addHostNode(t, g, hostfuncs.KeptToken|7); got != gpubackend.Success {
		t.Fatalf("add a node: %d", got)
	}
	e := r.want(t, 0, gpubackend.OpGraphInstantiateWithFlags, g, 0)
	tokens := make(chan []uint64)
	go func() {
		got, _ := r.guestThread(n, func(uint64) {})
		tokens <- got
	}()
	for range n {
		r.want(t, 0, gpubackend.OpGraphLaunch, e, 0)
	}
	for _, token := range <-tokens {
		if token != hostfuncs.KeptToken|7 {
			t.Fatalf("function %#x was announced", token)
		}
	}
}

// TestHostNodesAreBounded: a guest can't have the host keep functions without end; one that is
// known already costs nothing.
func TestHostNodesAreBounded(t *testing.T) {
	r := onSoft(t)
	defer r.hostFuncs.Close()
	g := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	for i := range uint64(hostfuncs.MaxFuncs) {
		r.hostFuncs.Keep(hostfuncs.KeptToken | i)
	}
	for token, want := range map[uint64]gpubackend.Result{hostfuncs.KeptToken | 5: 0,
		hostfuncs.KeptToken | hostfuncs.MaxFuncs: gpubackend.OutOfMemory} {
		if got := r.addHostNode(t, g, token); got != want {
			t.Errorf("function %#x: %d, want %d", token, got, want)
		}
	}
}
